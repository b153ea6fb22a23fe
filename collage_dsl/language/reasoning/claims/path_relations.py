"""What paths of calls keep, because each call that may be on them keeps it."""

from collections.abc import Iterator, Sequence
from functools import partial

from collage_dsl.graph import Kind
from collage_dsl.graph.operators import operators
from collage_dsl.language.messages.findings import listed
from collage_dsl.language.reasoning.claims.dimension_relations import (
    SAME_SIZE,
    broadcast_to,
    counted,
    same_size,
)
from collage_dsl.language.reasoning.claims.dtype_relations import given_dtypes
from collage_dsl.language.reasoning.claims.rank_differences import differ
from collage_dsl.language.reasoning.claims.rank_relations import REDUCTIONS, no_higher, no_lower
from collage_dsl.language.reasoning.claims.relations import (
    Claim,
    Relation,
    broadcasts,
    keeps_dtype,
    keeps_shape,
)
from collage_dsl.language.reasoning.claims.required_calls import Called
from collage_dsl.language.reasoning.values.assuming import limit
from collage_dsl.language.reasoning.values.domain import one_of
from collage_dsl.language.reasoning.values.facts import Facts
from collage_dsl.rules.condition import DimAt, Dtype


def path_claims(paths: Sequence[Called], *, of_operators: bool) -> Iterator[Claim]:
    """
    What holds for the value of each of `paths` and the value that it is from. Calls by kind are
    known if they are `of_operators`, and no compiled functions.
    """
    for path in paths:
        ops = path.call.ops
        if path.call.kinds:
            kinds = set(path.call.kinds) if of_operators and not ops else {Kind.OPAQUE}
            if kinds == {Kind.ELEMENTWISE}:
                yield Claim(_RANK, path)
                yield Claim(_NO_LARGER, path)
            elif kinds <= {Kind.ELEMENTWISE, Kind.REDUCE}:
                yield Claim(_NO_HIGHER, path)
        elif all(map(_keeps, ops)):
            yield Claim(_SHAPE, path)
        elif all(_keeps(op) or broadcasts(op) for op in ops):
            yield Claim(_NO_LOWER, path)
            yield Claim(_BROADCAST, path)
        elif all(_keeps(op) or op in REDUCTIONS for op in ops):
            yield Claim(_NO_HIGHER, path)
        if not path.call.kinds:
            yield from (Claim(relation, path) for relation in _others(ops, path.call.optional))


def _others(ops: tuple[str, ...], may_be_empty: bool) -> Iterator[Relation]:
    """What a path keeps beside its shape, and the dtype that its last call gives."""
    if any(op in SAME_SIZE for op in ops) and all(_keeps(op) or op in SAME_SIZE for op in ops):
        yield _SIZE
    if all(map(_keeps_dtype, ops)):
        yield _DTYPE
    elif has_one_dtype(ops):
        yield _DTYPE_UNLESS_BOOL
    if not may_be_empty and (dtypes := given_dtypes(ops)):
        said = f"a path of {{op}} gives {listed(dtypes, 'or')}"
        yield Relation(said, once=partial(_gives, dtypes))


def has_one_dtype(ops: tuple[str, ...]) -> bool:
    """Whether all that `ops` take and give has one dtype where nothing is `bool`."""
    return all(_keeps_dtype(op) or _takes_one_dtype(op) for op in ops)


def _keeps_dtype(op: str) -> bool:
    return keeps_dtype(op) and operators()[op].takes.count("tensor") == 1


def _takes_one_dtype(op: str) -> bool:
    known = operators()[op]
    places = (at for at, takes in enumerate(known.takes) if takes == "tensor")
    tensors = {(known.operands or ())[at] for at in places}
    return keeps_dtype(op) and tensors == set(known.same_dtype)


def what_is_kept(op: str) -> tuple[bool, ...]:
    """What the result of an operator has in common with what it takes, in few words."""
    return keeps_shape(op), broadcasts(op), op in REDUCTIONS


def _keeps(op: str) -> bool:
    return keeps_shape(op) and len(operators()[op].operands or ()) == 1


def _same_shape(called: Called, facts: Facts) -> None:
    facts.same_shape(called.result, called.operands[0])


def _same_rank(called: Called, facts: Facts) -> None:
    differ(facts, called.result, called.operands[0], 0, 0)


def _no_larger(called: Called, facts: Facts) -> None:
    """Slices from the first element on are elementwise too."""
    for axis in facts.asked_axes([called.result]):
        limit(facts, DimAt(called.result, axis), DimAt(called.operands[0], axis))


def _same_dtype(called: Called, facts: Facts) -> None:
    facts.equal(Dtype(called.result), Dtype(called.operands[0]))


def _same_dtype_unless_bool(called: Called, facts: Facts) -> None:
    if not any("bool" in facts.of(Dtype(name)) for name in called.operands):
        _same_dtype(called, facts)


def _gives(dtypes: list[str], called: Called, facts: Facts) -> None:
    if name := called.results.get(0):
        facts.narrow(Dtype(name), one_of(dtypes))


_SIZE = Relation("a path of {op} keeps all elements", once=same_size, again=counted)
_DTYPE = Relation("a path of {op} keeps the dtype", once=_same_dtype)
_DTYPE_UNLESS_BOOL = Relation(
    "a path of {op} keeps the dtype, unless a tensor is `bool`",
    again=_same_dtype_unless_bool,
    asks="dtypes",
)
_SHAPE = Relation("a path of {op} keeps the shape", once=_same_shape)
_RANK = Relation("a path of {op} keeps the rank", once=_same_rank)
_NO_LARGER = Relation("a path of {op} makes no dimension larger", again=_no_larger)
_NO_LOWER = Relation("a path of {op} gives the same rank or a higher one", again=no_lower)
_BROADCAST = Relation("a path of {op} keeps dimensions that are not 1", again=broadcast_to)
_NO_HIGHER = Relation("a path of {op} gives the same rank or a lower one", again=no_higher)
