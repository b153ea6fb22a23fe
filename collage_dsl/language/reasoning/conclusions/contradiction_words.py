"""Word what is said of conditions that exclude each other: names, notes and hints."""

from collections.abc import Iterable, Mapping, Sequence
from math import inf

from collage_dsl.diagnostics import Note
from collage_dsl.graph.types import long_dtype
from collage_dsl.language.messages.findings import listed, quoted
from collage_dsl.language.reasoning.claims.relations import Claim
from collage_dsl.language.reasoning.conclusions.premises import Condition, Premise
from collage_dsl.language.reasoning.values.domain import Number, Values, is_number
from collage_dsl.language.reasoning.values.facts import Facts
from collage_dsl.language.reasoning.values.shown_values import (
    ENORMOUS,
    MOST_SHOWN,
    shown,
    shown_in_order,
)
from collage_dsl.language.syntax import ast
from collage_dsl.rules.condition import (
    Attr,
    Compare,
    Comparison,
    Constant,
    DimAt,
    Dtype,
    Expression,
    Place,
    Rank,
    Value,
    every_part,
)
from collage_dsl.rules.written import question_text


def notes_on(premises: Sequence[Premise]) -> tuple[Note, ...]:
    """Notes on at most five conditions, and on calls if there are fewer than three."""
    said = (_note(premise) for premise in premises if isinstance(premise, Condition))
    conditions = list(dict.fromkeys(said))
    claims = {p.called.number: p for p in premises if isinstance(p, Claim) and p.span}
    calls = [
        Note(f"because of what `{'` or `'.join(claim.ops[:3])}` takes and gives", claim.span)
        for claim in claims.values()
    ]
    return (*conditions[:5], *calls[: max(0, 3 - len(conditions))])


def _note(condition: Condition) -> Note:
    if condition.said is None:
        return Note("together with this", condition.span)
    return Note(f"{quoted(condition.span)} says this", condition.said)


def most_telling(conditions: Sequence[Condition]) -> Condition | None:
    """The condition that a message names: the last one of those that say most."""
    return max(reversed(conditions), key=_telling, default=None)


def _telling(condition: Condition) -> int:
    match condition.expression:
        case Compare("==", Rank()) if condition.implied:
            return 0
        case Compare("==", Attr(name)) if condition.at_call and name.endswith("layout"):
            return 1
        case _ if condition.at_call:
            return 2
        case _:
            return 3 if condition.implied else 4


def together_with(condition: Condition) -> str:
    """What a condition is called in a message: what it says, if it is only a dimension."""
    if condition.said is not None:
        return f"what {quoted(condition.span, 'the called pattern')} says"
    match condition.expression:
        case Compare(operator, DimAt() | Rank() as left, right) if condition.implied:
            sides = _counted(left), _counted(right)
            return f"`{sides[0]} {operator} {sides[1]}`" if all(sides) else quoted(condition.span)
        case _:
            return quoted(condition.span, "the other condition")


def _counted(expression: Expression) -> str:
    """A rank, a dimension or a number as it is written; empty for others."""
    match expression:
        case DimAt() | Rank() if expression.of.isidentifier():
            return question_text(expression)
        case Constant(value):
            return shown(value)
        case _:
            return ""


def says(premises: Sequence[Premise]) -> str:
    """
    A hint with what operators say: one thing of each of at most three calls, two of a single one.
    What `is_plain` is said only of a call of which nothing else is.
    """
    claims = [premise for premise in premises if isinstance(premise, Claim)]
    claims.sort(key=lambda each: each.relation.is_plain)
    first = {each.called.number: each for each in reversed(claims)}
    said = _said(each for each in claims if each is first[each.called.number])
    if len(said) == 1:
        said = _said(each for each in claims if not each.relation.is_plain or each.says in said)[:2]
    return "; ".join(said[:3])


def _said(claims: Iterable[Claim]) -> list[str]:
    """What `claims` say, each sentence with the first operator that it is said of."""
    said: dict[str, str] = {}
    for claim in claims:
        said.setdefault(claim.relation.says, claim.says)
    return list(said.values())


def operators_of(premises: Sequence[Premise]) -> str:
    names = dict.fromkeys(op for p in premises if isinstance(p, Claim) for op in p.ops)
    return f"`{next(iter(names))}`" if names else "the operators"


def either(one: ast.Expression, other: ast.Expression) -> str:
    """A hint that joins `rank(x) == 2` and `rank(x) == 3`; empty if they are not so."""
    match one, other:
        case (
            ast.Operation("==", left, first),
            ast.Operation("==", same, second),
        ) if (
            left is not None
            and same is not None
            and left.span.text == same.span.text
            and _is_value(first)
            and _is_value(second)
        ):
            values = f"[{first.span.text}, {second.span.text}]"
            return f"write `{left.span.text} in {values}` for either"
    return ""


def _is_value(written: ast.Expression) -> bool:
    match written:
        case ast.Name():
            return long_dtype(written.text) is not None
        case ast.List(items):
            return all(map(_is_value, items))
        case _:
            return isinstance(written, ast.Literal)


def excluding(parts: Sequence[ast.Expression]) -> str:
    """A hint that names the few `parts` of a condition that exclude each other."""
    if len(parts) == 2 and (hint := either(*parts)):
        return hint
    texts = [" ".join(part.span.text.split()) for part in parts]
    return f"{listed(texts, 'and')} exclude each other"


def assumed(conditions: Sequence[Condition]) -> str:
    """What is usual, of conditions that `usual` has made."""
    values: dict[str, Value] = {}
    words: dict[str, None] = {}
    for each in conditions:
        match each.expression:
            case _ if each.usual:
                words[each.usual] = None
            case Compare("==", Attr(name), Constant(value)):
                values[name.partition(".")[2]] = value
            case Compare("!=", Dtype()):
                words["no tensor is `bool`"] = None
            case _:
                words["no dimension is 0"] = None
    if values.get(_RESULT) in (values.get("layout"), values.get("data_layout")):
        values.pop(_RESULT, None)
    said = [f"`{name}` is `{shown(value)}`" for name, value in values.items()]
    said += words
    *first, last = said
    return f"{', '.join(first)} and {last}" if first else last


_RESULT = "out_layout"


def shape_of(text: str, name: str, facts: Facts) -> str:
    """A hint that says which shape a value has; empty if it is not known."""
    rank = facts.of(Rank(name)).only()
    if not isinstance(rank, int):
        return ""
    dims = [facts.of(DimAt(name, axis)).only() for axis in range(rank)]
    return f"`{text}` is `{shown(tuple(dims))}` here" if None not in dims else ""


def axes_of(part: Expression, facts: Facts) -> str:
    """A hint that says which axes a value has, if `part` asks about another one."""
    for asked in every_part(part):
        if not isinstance(asked, DimAt | Place):
            continue
        of, axis = asked.of, asked.axis
        rank = facts.of(Rank(of)).only()
        if isinstance(rank, int) and not -rank <= axis < rank:
            least, most = (0, rank - 1) if axis >= 0 else (-rank, -1)
            axes = f"axes are {least} to {most}" if rank > 1 else f"only axis is {least}"
            return f"`{of}` has rank {rank}: its {axes}" if rank else f"`{of}` has no axes"
    return ""


ORDERS: tuple[Comparison, ...] = ("<", "==", ">")

_COMPARED: Mapping[frozenset[Comparison], str] = {
    frozenset({"<"}): "is always less than",
    frozenset({"=="}): "always equals",
    frozenset({">"}): "is always greater than",
    frozenset({"<", "=="}): "is at most",
    frozenset({"==", ">"}): "is at least",
    frozenset({"<", ">"}): "never equals",
}


def compared(left: str, right: str, possible: frozenset[Comparison]) -> str:
    """A hint that says how two numbers compare, of which only `possible` can hold."""
    said = _COMPARED.get(possible)
    return f"{left} {said} {right}" if said else ""


def range_of(text: str, values: Values) -> str:
    """A hint that says which numbers `text` can be; empty if it may be any."""
    if values.allowed is not None:
        left = [value for value in values.allowed if value in values]
        if len(left) > MOST_SHOWN:
            return _some_of(text, left)
        return f"`{text}` is {listed(shown_in_order(left))} here" if left else ""
    least, most = values.whole_bounds() if values.whole else values.bounds()
    if least == most:
        return f"`{text}` is `{least}` here"
    least = -inf if least <= -ENORMOUS else least
    most = inf if most >= ENORMOUS - 1 else most
    if not values.whole and least == -inf:
        never = shown_in_order(values.excluded)
        return f"`{text}` is never {listed(never)}" if 0 < len(never) <= MOST_SHOWN else ""
    said = "a whole number" if values.whole else "a number"
    if values.modulus > 1 and values.rest == 0:
        said = f"a multiple of {values.modulus}"
    elif values.modulus > 1:
        said = f"{values.rest} more than a multiple of {values.modulus}"
    if least > -inf and (values.modulus == 1 or most < inf):
        said += _from_to(least, most, values)
    return f"`{text}` is always {said}"


def _some_of(text: str, values: Sequence[Value]) -> str:
    """A hint that names a few of many numbers; empty if not all of `values` are numbers."""
    numbers = [value for value in values if is_number(value)]
    if len(numbers) < len(values):
        return ""
    first, second, third, *_, last = sorted(numbers)
    end = f" or `{last}`" if last < _HIGH else ""
    return f"`{text}` is `{first}`, `{second}`, `{third}`, …{end} here"


_HIGH = 1 << 30
"""The last number of a list that goes on has no meaning if it is this or more."""


def _from_to(least: Number, most: Number, values: Values) -> str:
    below = f" and below {most}" if most in values.excluded else f" and at most {most}"
    if least in values.excluded:
        return f" above {least}" + (below if most < inf else "")
    if most in values.excluded:
        return f" from {least} on{below}"
    return f" from {least}" + (" on" if most == inf else f" to {most}")
