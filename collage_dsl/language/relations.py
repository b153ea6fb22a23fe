"""What the operators of a pattern say about dtypes and ranks: `nn.relu` keeps both."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from math import inf

from collage_dsl.graph import Kind
from collage_dsl.graph.operators import operators
from collage_dsl.language.domain import TRUTH, WHOLE, Values, between, one_of
from collage_dsl.language.facts import Facts
from collage_dsl.rules.condition import Attr, Dtype, Rank
from collage_dsl.rules.pattern import Call, Operand, Pattern, Reference
from collage_dsl.source import Span

_CHANGES_DTYPE = frozenset(
    {"astype", "dequantize", "equal", "eye", "eye_like", "full", "full_like", "greater"}
    | {"greater_equal", "hamming_window", "isfinite", "isinf", "isnan", "less", "less_equal"}
    | {"nn.dropout", "not_equal", "ones", "ones_like", "quantize", "shape_to_tensor"}
    | {"where", "zeros", "zeros_like"}
)
"""Operators of a simple kind whose result has a dtype of its own, or is no tensor."""

_OTHER_SHAPE = frozenset(
    {"broadcast_to", "expand_dims", "eye", "full", "hamming_window", "nn.dropout", "ones", "outer"}
    | {"shape_to_tensor", "zeros"}
)
"""Operators of a simple kind whose result has not the shape of what it is computed from."""

_LIKE_FIRST = frozenset(
    {"flip", "nn.group_norm", "nn.instance_norm", "nn.layer_norm", "nn.log_softmax"}
    | {"nn.rms_norm", "nn.softmax", "sort"}
)
"""Other operators whose result is like their first operand."""

_OF_IMAGES = {
    f"nn.{sort}{rank}d": rank + 2
    for sort in ("conv", "max_pool", "avg_pool", "adaptive_avg_pool")
    for rank in (1, 2, 3)
}
"""The least rank of the data, of the weight, and of the result; blocked layouts have more."""

_RANKS: Mapping[str, int] = {"flatten": 1, "nn.batch_flatten": 2}
"""Operators whose result has one rank."""


@dataclass(frozen=True, slots=True)
class Called:
    """
    A call that is part of every match, with the names of its value and of its operands; what
    has no name in the pattern is given one. `number` tells the attributes of calls apart.
    """

    call: Call
    result: str
    operands: tuple[str, ...]
    number: int

    @property
    def span(self) -> Span | None:
        return self.call.span

    def attribute(self, name: str) -> Attr:
        return Attr(f"{self.number}.{name}")

    def attributes(self) -> Mapping[str, Values]:
        """What its attributes may be, by their types in all of its operators."""
        first, *others = (operators()[op].attrs for op in self.call.ops)
        return {
            self.attribute(name).name: _OF_TYPE[type_]
            for name, type_ in first.items()
            if type_ in _OF_TYPE and all(other.get(name) == type_ for other in others)
        }


_OF_TYPE = {"int": WHOLE, "bool": TRUTH}


def called(pattern: Pattern, required: frozenset[str]) -> tuple[Called, ...]:
    """The calls that every match has: those of the names in `required`, outside alternatives."""
    numbers = count()
    return tuple(
        found
        for binding in pattern.bindings
        if binding.name in required
        for found in _called(binding.value, binding.name, numbers)
    )


def _called(operand: Operand, name: str, numbers: Iterator[int]) -> Iterator[Called]:
    if not isinstance(operand, Call):
        return
    number = next(numbers)
    names = tuple(_name(inner, f"{number}.{at}") for at, inner in enumerate(operand.operands))
    yield Called(operand, name, names, number)
    for at, inner in enumerate(operand.operands):
        if at == 0 or not operand.optional:
            yield from _called(inner, names[at], numbers)


def _name(operand: Operand, otherwise: str) -> str:
    """What no condition can ask about has a name that no one can write."""
    return operand.name if isinstance(operand, Reference) else otherwise


def relate(called: Called, facts: Facts) -> None:
    """
    What the operators of a call say of its value and its operands. An optional call may stand
    for its first operand, so that only what holds then too is said.
    """
    for relation in (_dtypes, _like_first, _broadcasting, _images, _fixed_ranks):
        relation(called, facts)


def _all(called: Called, holds: Callable[[str], bool]) -> bool:
    return bool(called.operands) and all(map(holds, called.call.ops))


def _dtypes(called: Called, facts: Facts) -> None:
    if _all(called, keeps_dtype):
        facts.equal(Dtype(called.result), Dtype(called.operands[0]))
        if not called.call.optional and _all(called, is_broadcasting):
            facts.equal(Dtype(called.operands[0]), Dtype(called.operands[1]))
    elif called.call.ops == ("astype",) and not called.call.optional:
        facts.equal(Dtype(called.result), called.attribute("dtype"))


def keeps_dtype(op: str) -> bool:
    """Whether the result of `op` has the dtype of its first operand."""
    simple = operators()[op].kind <= Kind.BROADCAST and op not in _CHANGES_DTYPE
    return simple or op in _LIKE_FIRST


def keeps_shape(op: str) -> bool:
    """Whether the result of `op` has the shape of its first operand."""
    simple = operators()[op].kind is Kind.ELEMENTWISE and op not in _OTHER_SHAPE
    return simple or op in _LIKE_FIRST


def is_broadcasting(op: str) -> bool:
    """Whether `op` takes two tensors of one dtype, which are broadcast to one shape."""
    known = operators()[op]
    takes_two = known.operands == ("x1", "x2")
    return known.kind is Kind.BROADCAST and takes_two and op not in _OTHER_SHAPE


def _like_first(called: Called, facts: Facts) -> None:
    if _all(called, keeps_shape):
        facts.equal(Rank(called.result), Rank(called.operands[0]))


def _broadcasting(called: Called, facts: Facts) -> None:
    """The rank of the result is that of the operand which has more."""
    if not _all(called, is_broadcasting):
        return
    operands = called.operands[:1] if called.call.optional else called.operands
    for operand in operands:
        least, _ = facts.of(Rank(operand)).bounds()
        facts.narrow(Rank(called.result), between(least, inf))
        _, most = facts.of(Rank(called.result)).bounds()
        facts.narrow(Rank(operand), between(-inf, most))
    if not called.call.optional:
        _, most = facts.of(Rank(operands[0])).bounds()
        _, other = facts.of(Rank(operands[1])).bounds()
        facts.narrow(Rank(called.result), between(-inf, max(most, other)))


def _images(called: Called, facts: Facts) -> None:
    if called.call.optional or not _all(called, lambda op: op in _OF_IMAGES):
        return
    least = min(_OF_IMAGES[op] for op in called.call.ops)
    is_convolution = operators()[called.call.ops[0]].operands == ("data", "weight")
    layouts = {called.operands[0]: "data_layout" if is_convolution else "layout"}
    if is_convolution:
        layouts[called.operands[1]] = "kernel_layout"
    facts.narrow(Rank(called.result), between(least, inf))
    for operand, layout in layouts.items():
        facts.narrow(Rank(operand), between(least, inf))
        known = facts.of(called.attribute(layout)).allowed
        if known is not None:
            facts.narrow(Rank(operand), one_of(rank_of_layout(str(text)) for text in known))


def rank_of_layout(layout: str) -> int:
    """`NCHW` is of rank 4, `NCHW16c` of rank 5."""
    return sum(map(str.isalpha, layout))


def _fixed_ranks(called: Called, facts: Facts) -> None:
    ranks = [_RANKS.get(op) for op in called.call.ops]
    if ranks[0] is not None and len(set(ranks)) == 1 and not called.call.optional:
        facts.narrow(Rank(called.result), one_of((ranks[0],)))
