"""Derive dtypes and ranks from the operators of a pattern: `nn.relu` keeps both."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
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
"""Elementwise and broadcast operators that change the dtype, or whose result is not a tensor."""

_OTHER_SHAPE = frozenset(
    {"broadcast_to", "expand_dims", "eye", "full", "hamming_window", "nn.dropout", "ones", "outer"}
    | {"shape_to_tensor", "zeros"}
)
"""Elementwise and broadcast operators whose result does not have the shape of the operands."""

_LIKE_FIRST = frozenset(
    {"flip", "nn.group_norm", "nn.instance_norm", "nn.layer_norm", "nn.log_softmax"}
    | {"nn.rms_norm", "nn.softmax", "sort"}
)
"""Other operators whose result has the dtype and shape of the first operand."""

_OF_IMAGES = {
    f"nn.{sort}{rank}d": rank + 2
    for sort in ("conv", "max_pool", "avg_pool", "adaptive_avg_pool")
    for rank in (1, 2, 3)
}
"""The least rank of the data, the weight and the result. Blocked layouts have a higher rank."""

_RANKS: Mapping[str, int] = {"flatten": 1, "nn.batch_flatten": 2}
"""Operators whose result always has the same rank."""


@dataclass(frozen=True, slots=True)
class Called:
    """
    A call that is part of every match, with the ranks of its value and its operands.

    Operands without a name get one. `number` distinguishes the attributes of different calls.
    """

    call: Call
    result: Rank
    operands: tuple[Rank, ...]
    number: int

    @property
    def span(self) -> Span | None:
        return self.call.span

    def attribute(self, name: str) -> Attr:
        return Attr(f"{self.number}.{name}")

    def attributes(self) -> Mapping[str, Values]:
        """The values that its attributes may have, by their types in all of its operators."""
        first, *others = (operators()[op].attrs for op in self.call.ops)
        return {
            self.attribute(name).name: _OF_TYPE[type_]
            for name, type_ in first.items()
            if type_ in _OF_TYPE and all(other.get(name) == type_ for other in others)
        }


_OF_TYPE = {"int": WHOLE, "bool": TRUTH}


def called(pattern: Pattern, required: frozenset[str]) -> tuple[Called, ...]:
    """The calls in every match: those bound to names in `required`, outside alternatives."""
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
    yield Called(operand, Rank(name), tuple(map(Rank, names)), number)
    for at, inner in enumerate(operand.operands):
        if at == 0 or not operand.optional:
            yield from _called(inner, names[at], numbers)


def _name(operand: Operand, otherwise: str) -> str:
    """The name of `operand`, or `otherwise`, a name that no user can write."""
    return operand.name if isinstance(operand, Reference) else otherwise


Relation = Callable[[Called, Facts], None]


def introduce(called: Called, facts: Facts) -> None:
    """
    Add what always holds for the value and the operands of a call.

    An absent optional call stands for its first operand; what is added holds in that case too.
    """
    for relation in _relations(called.call.ops, bool(called.operands), called.call.optional)[0]:
        relation(called, facts)


def relate(called: Called, facts: Facts) -> None:
    """Add what follows from the known facts for the ranks of the value and the operands."""
    for relation in _relations(called.call.ops, bool(called.operands), called.call.optional)[1]:
        relation(called, facts)


@lru_cache(1024)
def _relations(
    ops: tuple[str, ...], has_operands: bool, optional: bool
) -> tuple[tuple[Relation, ...], tuple[Relation, ...]]:
    """The relations of `ops` to apply once, and those to apply again when more is known."""

    def all_are(holds: Callable[[str], bool]) -> bool:
        return has_operands and all(map(holds, ops))

    of_images = all_are(_OF_IMAGES.__contains__) and not optional
    of_one_rank = len(set(map(_RANKS.get, ops))) == 1 and ops[0] in _RANKS and not optional
    once: dict[Relation, bool] = {
        _same_dtype: all_are(keeps_dtype),
        _same_dtypes: all_are(keeps_dtype) and all_are(is_broadcasting) and not optional,
        _asked_dtype: ops == ("astype",) and not optional,
        _same_rank: all_are(keeps_shape),
        _images: of_images,
        _fixed_rank: of_one_rank,
    }
    again: dict[Relation, bool] = {_broadcasting: all_are(is_broadcasting), _layouts: of_images}
    return tuple(r for r in once if once[r]), tuple(r for r in again if again[r])


def _same_dtype(called: Called, facts: Facts) -> None:
    facts.equal(Dtype(called.result.of), Dtype(called.operands[0].of))


def _same_dtypes(called: Called, facts: Facts) -> None:
    facts.equal(Dtype(called.operands[0].of), Dtype(called.operands[1].of))


def _asked_dtype(called: Called, facts: Facts) -> None:
    facts.equal(Dtype(called.result.of), called.attribute("dtype"))


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


def _same_rank(called: Called, facts: Facts) -> None:
    facts.equal(called.result, called.operands[0])


def _broadcasting(called: Called, facts: Facts) -> None:
    """Add that the rank of the result is the larger rank of the operands."""
    result = called.result
    operands = called.operands[:1] if called.call.optional else called.operands
    for operand in operands:
        least, _ = facts.of(operand).bounds()
        if least > 0:
            facts.narrow(result, between(least, inf))
        _, most = facts.of(result).bounds()
        if most < inf:
            facts.narrow(operand, between(-inf, most))
    if not called.call.optional:
        most = max(facts.of(operand).bounds()[1] for operand in operands)
        if most < inf:
            facts.narrow(result, between(-inf, most))


def _images(called: Called, facts: Facts) -> None:
    least = between(min(_OF_IMAGES[op] for op in called.call.ops), inf)
    for rank in (called.result, *_layouts_of(called)):
        facts.narrow(rank, least)


def _layouts(called: Called, facts: Facts) -> None:
    for operand, layout in _layouts_of(called).items():
        known = facts.of(layout).allowed
        if known is not None:
            facts.narrow(operand, one_of(rank_of_layout(str(text)) for text in known))


def _layouts_of(called: Called) -> dict[Rank, Attr]:
    """Each rank that a layout determines, with the attribute of that layout."""
    if operators()[called.call.ops[0]].operands != ("data", "weight"):
        return {called.operands[0]: called.attribute("layout")}
    data, weight = called.operands
    return {data: called.attribute("data_layout"), weight: called.attribute("kernel_layout")}


def rank_of_layout(layout: str) -> int:
    """The rank of a layout: 4 for `NCHW`, 5 for `NCHW16c`."""
    return sum(map(str.isalpha, layout))


def _fixed_rank(called: Called, facts: Facts) -> None:
    facts.narrow(called.result, one_of((_RANKS[called.call.ops[0]],)))
