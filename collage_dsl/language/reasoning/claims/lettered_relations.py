"""Equal dimensions of what fused operators take and give, where ranks are not known."""

from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from math import inf

from collage_dsl.graph.operators import operators
from collage_dsl.language.inference.lettered import ANY, ONE, Lettered, letters_of
from collage_dsl.language.inference.onnx_letters import LETTERED, TAKEN
from collage_dsl.language.messages.findings import listed
from collage_dsl.language.reasoning.claims.onnx_results import results_of_onnx
from collage_dsl.language.reasoning.claims.relations import Relation
from collage_dsl.language.reasoning.claims.required_calls import Called
from collage_dsl.language.reasoning.values.domain import between, one_of
from collage_dsl.language.reasoning.values.facts import Facts
from collage_dsl.rules.condition import DimAt, Dtype, Rank

_STORED = frozenset(f"com.microsoft.{op}" for op in ("MatMulBnb4", "MatMulNBits"))
"""Products with a matrix that is stored in another form, so that attributes say its shape."""

_LETTERED = {**LETTERED, **TAKEN}

_BLOCKED = "com.microsoft.MatMulNBits"


def lettered_relations(ops: tuple[str, ...]) -> Iterator[Relation]:
    lettered = _LETTERED.get(ops[0]) if len(ops) == 1 else None
    if lettered is not None:
        yield Relation(_says_ranks(ops[0], lettered), once=partial(_rank, lettered))
        for letter in sorted(set(lettered.operands) - set("?*~.- ")):
            if said := _says_equal(ops[0], lettered, letter):
                yield Relation(said, again=partial(_equal, lettered, letter))
    if _STORED.issuperset(ops):
        yield Relation("{op} takes `K` columns and gives `N`", once=_columns)
    if set(ops) == {_BLOCKED}:
        said = "{op} takes the zero points of a column as bytes, of `bits` bits each"
        yield Relation(said, again=_zero_points, asks="all")


def _says_ranks(op: str, lettered: Lettered) -> str:
    words = zip(operators()[op].operands or (), lettered.operands.split(), strict=True)
    named = [(name, word.removeprefix("?")) for name, word in words if ANY not in word]
    said = [f"`{name}` {_said_of_rank(word)}" for name, word in named]
    return f"{{op}} takes {', '.join(said)}"


def _said_of_rank(word: str) -> str:
    return "as one number" if word == ONE else f"of rank {_least(word)}{_or_more(word)}"


def _least(word: str) -> int:
    first, last, _ = letters_of(word)
    return len(first) + len(last)


def _or_more(word: str) -> str:
    return " or more" if letters_of(word)[2] else ""


def _says_equal(op: str, lettered: Lettered, letter: str) -> str:
    """Words for the operands that have the dimension `letter`; empty if it is only one."""
    words = zip(operators()[op].operands or (), lettered.operands.split(), strict=True)
    having = [
        f"dim({name}, {axis})"
        for name, word in words
        for each, axis in _axes(word)
        if each == letter and not letter.isdecimal()
    ]
    if len(having) + lettered.results.count(letter) < 2:
        return ""
    return f"{{op}} has equal dimensions {listed(having, 'and')}"


def _rank(lettered: Lettered, called: Called, facts: Facts) -> None:
    for name, word in _words(lettered, called):
        least = _least(word)
        if word == ONE:
            facts.narrow(Rank(name), between(0, 1))
        else:
            facts.narrow(Rank(name), between(least, inf) if _or_more(word) else one_of((least,)))


def _equal(lettered: Lettered, letter: str, called: Called, facts: Facts) -> None:
    dims = [
        DimAt(name, axis)
        for name, word in _words(lettered, called)
        for each, axis in _axes(word)
        if each == letter
    ]
    for one, other in pairwise(dims):
        facts.equal(one, other)


def _words(lettered: Lettered, called: Called) -> Iterator[tuple[str, str]]:
    """Operands and results with their words, as far as it is known which they are."""
    words, results = lettered.operands.split(), lettered.results.split()
    placements = tuple(lettered.placements(len(called.operands)))
    known = list(zip(called.operands, zip(*placements, strict=True), strict=False))
    named = [(name, words[places[0]]) for name, places in known if len(set(places)) == 1]
    if len(results) == 1:
        named.append((called.result, results[0]))
    else:
        found = results_of_onnx(called)
        named += [(name, results[at.start]) for name, at in found if len(at) == 1]
    yield from ((name, word.removeprefix("?")) for name, word in named if ANY not in word)


def _axes(word: str) -> Iterator[tuple[str, int]]:
    """The letters of a word, with axes that are counted from the side where they stand."""
    first, last, _ = letters_of(word.removeprefix("?"))
    if word.endswith(ONE):
        return
    yield from zip(first, range(len(first)), strict=True)
    yield from zip(last, range(-len(last), 0), strict=True)


def _columns(called: Called, facts: Facts) -> None:
    facts.equal(DimAt(called.operands[0], -1), called.attribute("K"))
    facts.equal(DimAt(called.result, -1), called.attribute("N"))


def _zero_points(called: Called, facts: Facts) -> None:
    """Of the operands that may be left out, only the zero points have two dimensions."""
    if len(called.operands) < 4:
        return
    name = called.operands[3]
    sizes = [facts.of(called.attribute(each)).only() for each in ("K", "block_size", "bits")]
    is_packed = facts.of(Dtype(name)).only() == "u8" and facts.of(Rank(name)).only() == 2
    match sizes:
        case [int() as rows, int() as size, int() as bits] if is_packed and size > 0:
            blocks = -(-rows // size)
            facts.narrow(DimAt(name, 1), one_of((-(-blocks * bits // 8),)))
