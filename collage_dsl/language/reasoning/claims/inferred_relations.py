"""What the inference of graphs says of a call, as far as its operands are known."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, permutations

from collage_dsl.graph import Attribute, Dim, OpaqueType, TensorType, TupleType, Type
from collage_dsl.graph.operators import operators, without_code
from collage_dsl.language.inference.infer import has_rule, infer, is_one_rule
from collage_dsl.language.inference.shapes import (
    Call,
    MismatchError,
    UnknownAttributeError,
    more_exact_shape,
)
from collage_dsl.language.inference.standard_calls import is_standard, standard_type
from collage_dsl.language.reasoning.claims.inferred_dims import Dims
from collage_dsl.language.reasoning.claims.list_relations import lists_of
from collage_dsl.language.reasoning.claims.list_values import asked_list, is_none
from collage_dsl.language.reasoning.claims.onnx_results import results_of_onnx
from collage_dsl.language.reasoning.claims.relations import Relation
from collage_dsl.language.reasoning.claims.required_calls import Called
from collage_dsl.language.reasoning.values.assuming import equate, may_have
from collage_dsl.language.reasoning.values.domain import Values, one_of
from collage_dsl.language.reasoning.values.facts import Facts
from collage_dsl.rules.condition import (
    DimAt,
    Has,
    Rank,
)

_UNKNOWN = "unknown"

_ALL_DIMS = frozenset({"squeeze"})
"""Operators of which the rule takes a dimension that is not known to be a symbolic one."""

_NOT_OF_SHAPES = frozenset({"dtype", "out_dtype", "out_int32", "ret_type"})
"""Attributes that say nothing of a shape, or of the shapes in a tuple."""


_COUNTS = frozenset({"depth", "groups", "num_groups"})
"""Attributes without which a shape can be inferred, although not all that they refuse is."""

_FIRST_DIMS = frozenset({"batch_dims"})
"""Attributes that say how many of the first dimensions are batches."""

_MOST_WAYS = 40
"""A call is inferred for at most this many combinations of values of its attributes."""

_MOST_AXES = 4
"""All lists of axes are tried of so many at most."""

_NAME = re.compile(r"\bd[0-9]+\b")
"""A name of `Dims`, which no user knows."""


@dataclass(frozen=True, slots=True)
class _Inferred:
    """What is inferred in one way; the type is None if it is not known."""

    type: Type | None
    agreed: tuple[tuple[Dim, Dim], ...]


def inferred_relations(ops: tuple[str, ...]) -> Iterator[Relation]:
    has_type = has_rule(ops[0]) or (is_standard(ops[0]) and len(ops) == 1)
    if has_type and is_one_rule(ops):
        yield Relation("{op} gives the shape that follows from what it takes", again=_infer)


def _infer(called: Called, facts: Facts) -> None:
    dims = Dims(facts)
    part = _known_part(called, facts, dims)
    if part is None or (dims.terms and part.op in _ALL_DIMS):
        return
    found = tuple(part.ways({}, _MOST_WAYS))
    if not found:
        facts.possible = False
        facts.mismatch = part.mismatch()
        return
    found = tuple(each for each in found if _has_fields(called, each.type)) or found
    for one, other in _agreed_in_all(found):
        left, right = dims.expression(one), dims.expression(other)
        if left is not None and right is not None:
            equate(facts, left, right)
    for name, shapes in _shapes(called, found).items():
        _has_one_of(facts, name, shapes, dims)
        if not facts.possible:
            facts.mismatch = _gives(part.op, shapes)
            return


def _gives(op: str, shapes: Sequence[Sequence[Dim]]) -> str:
    """Words for the shape that a call gives, if it is known and the only one."""
    (first, *others) = (tuple(shape) for shape in shapes)
    is_known = all(isinstance(dim, int) for dim in first) and set(others) <= {first}
    return f"`{op}` gives the shape {list(first)} here" if is_known else ""


def _known_part(called: Called, facts: Facts, dims: Dims) -> "_Part | None":
    """What is known of a call; None if that is nothing, or too little."""
    lists = {name for _, name in lists_of(called)}
    types = tuple(_type_of(called, name, dims, name in lists) for name in called.operands)
    numbers = tuple(called.written(at) for at in range(len(called.operands)))
    op = called.call.ops[0]
    is_any_known = lists or any(map(_is_known, types)) or set(numbers) - {None}
    if not is_any_known and op not in without_code():
        return None
    if any(map(_is_missing, operators()[op].takes, types)):
        return None
    values = tuple(
        dims.of(name) if name in lists else number
        for name, number in zip(called.operands, numbers, strict=True)
    )
    return _Part(called, facts, types, values)


@dataclass(frozen=True, slots=True)
class _Part:
    """What is known of the operands of a call, and of its attributes by `facts`."""

    called: Called
    facts: Facts
    types: tuple[Type, ...]
    values: tuple[object, ...]
    problems: list[str] = field(default_factory=list)
    """Why operands do not fit."""

    @property
    def op(self) -> str:
        return self.called.call.ops[0]

    def ways(self, assumed: Mapping[str, Attribute], most: int) -> Iterator[_Inferred]:
        """
        What is inferred with the `assumed` attributes. If another one is needed that has few
        values, this is inferred for each. None of `most` ways is left if no operands fit.
        """
        attributes = _Attributes(self.called, self.facts, assumed)
        call = Call(self.op, self.types, self.values, attributes)
        try:
            yield _Inferred(_type(call), tuple(call.agreed))
        except MismatchError as problem:
            self.problems.append(str(problem))
        except UnknownAttributeError as unknown:
            name = str(unknown)
            choices = self.choices(name)
            if not 0 < len(choices) <= most:
                yield _Inferred(_by_rule(call), tuple(call.agreed))
            else:
                for value in choices:
                    yield from self.ways({**assumed, name: value}, most // len(choices))

    def mismatch(self) -> str:
        """Why no operands fit, in words without names that no user knows."""
        known = (each for each in self.problems if not _NAME.search(each))
        return next((f"in `{self.op}`, {problem}" for problem in known), "")

    def choices(self, name: str) -> list[Attribute]:
        """The values that an attribute may have, if they are few."""
        attribute = self.called.attribute(name)
        values = self.facts.of(attribute)
        has_value = self.facts.of(Has(attribute.name)).only() is True
        may_be_none = name in operators()[self.op].may_be_none and not has_value
        if values.allowed is None and name in operators()[self.op].axes:
            axes = self.axes(name, values)
            return [*axes, None] if axes and may_be_none else axes
        if name in _FIRST_DIMS and isinstance(first := self.types[0], TensorType):
            return [count for count in range(len(first.shape or ())) if count in values]
        if may_be_none:
            return []
        texts = operators()[self.op].values.get(name, ()) if self.op in without_code() else ()
        allowed = texts if values.allowed is None else values.allowed
        return sorted((value for value in allowed if value in values), key=str)

    def axes(self, name: str, values: Values) -> list[Attribute]:
        """The axes, or the lists of axes, that an attribute may have; none if they are many."""
        operator, first = operators()[self.op], self.types[0]
        while isinstance(first, TupleType) and first.fields:
            first = first.fields[0]
        if not isinstance(first, TensorType) or first.shape is None:
            return []
        rank = len(first.shape) + operator.axes[name]
        if operator.attrs[name] == "int":
            both = (at if at in values else at - rank for at in range(rank))
            return [at for at in both if at in values]
        if operator.axes[name] or rank > _MOST_AXES:
            return []
        listed = combinations if len(self.types) == 1 else permutations  # weights have their order
        return [list_ for count in range(rank + 1) for list_ in listed(range(rank), count)]


def _type(call: Call) -> Type:
    """What a rule of ours says, and the definition of the operator in ONNX."""
    type_ = infer(call)
    if not is_standard(call.op):
        return type_
    match type_, standard_type(call):
        case TensorType(dtype, one), TensorType(_, other):
            return TensorType(dtype, more_exact_shape(one, other))
        case TensorType(shape=None), other:
            return other
        case _:
            return type_


def _by_rule(call: Call) -> Type | None:
    """What a rule of ours says where the definition in ONNX needs to know more; None if nothing."""
    try:
        return infer(call) if is_standard(call.op) else None
    except UnknownAttributeError:
        return None


def _has_fields(called: Called, type_: Type | None) -> bool:
    """Whether a call that gives `type_` may have the fields that the pattern takes of it."""
    most = max(called.names.fields.get(called.result, ()), default=-1)
    match type_:
        case TensorType():
            return most == -1
        case TupleType(fields):
            return most < len(fields)
        case _:
            return True


def _agreed_in_all(found: Sequence[_Inferred]) -> Iterator[tuple[Dim, Dim]]:
    first, *others = found
    for pair in dict.fromkeys(first.agreed):
        if pair[0] != pair[1] and all(pair in other.agreed for other in others):
            yield pair


def _shapes(called: Called, found: Sequence[_Inferred]) -> Mapping[str, list[Sequence[Dim]]]:
    """The shapes that each result may have; without those of which nothing is known."""
    shapes: dict[str, list[Sequence[Dim]]] = {}
    ways = Counter[str]()
    for each in found:
        for name, types in _results(called, each.type):
            known = [t.shape for t in types if isinstance(t, TensorType) and t.shape is not None]
            if len(known) == len(types):
                ways[name] += 1
                shapes.setdefault(name, []).extend(known)
    return {name: known for name, known in shapes.items() if ways[name] == len(found)}


def _results(called: Called, type_: Type | None) -> Iterator[tuple[str, tuple[Type, ...]]]:
    """
    The results that the pattern names, with the types that each may have: of a node of ONNX, those
    of all results that it may be.
    """
    match type_:
        case TupleType(fields) if operators()[called.call.ops[0]].most_results is not None:
            for name, places in results_of_onnx(called):
                if places.stop <= len(fields):
                    yield name, fields[places.start : places.stop]
        case TupleType(fields):
            named = called.names.fields.get(called.result, {})
            yield from ((named[at], (each,)) for at, each in enumerate(fields) if at in named)
        case TensorType():
            yield called.result, (type_,)


def _is_missing(takes: str | None, type_: Type) -> bool:
    """Whether nothing is known of the tuple that an operand is."""
    return takes == "tuple" and not isinstance(type_, TupleType)


def _type_of(called: Called, name: str, dims: Dims, is_list: bool) -> Type:
    if is_list:
        return OpaqueType("shape")
    if parts := called.names.tuples.get(name):
        return TupleType(tuple(_tensor(each, dims) for each in parts))
    return _tensor(name, dims)


def _tensor(name: str, dims: Dims) -> TensorType:
    return TensorType(_UNKNOWN, dims.of(name))


def _is_known(type_: Type) -> bool:
    fields: Sequence[Type] = type_.fields if isinstance(type_, TupleType) else (type_,)
    return any(isinstance(each, TensorType) and each.shape is not None for each in fields)


def _has_one_of(facts: Facts, name: str, shapes: Sequence[Sequence[Dim]], dims: Dims) -> None:
    shapes = [shape for shape in shapes if may_have(facts, name, shape)]
    ranks = {len(shape) for shape in shapes}
    facts.narrow(Rank(name), one_of(ranks))
    shared = min(ranks, default=0)
    asked = facts.asked_axes((name,)) if len(ranks) > 1 else ()
    for axis in (*range(shared), *(at for at in asked if -shared <= at < 0)):
        each = [shape[axis] for shape in shapes]
        if not facts.possible:
            return
        numbers = [dim for dim in each if isinstance(dim, int)]
        if len(numbers) == len(each):
            facts.narrow(DimAt(name, axis), one_of(numbers))
        elif len(set(each)) == 1:
            dims.equate(DimAt(name, axis), each[0])


class _Attributes(Mapping[str, Attribute]):
    """
    The attributes of a call, some of which have `assumed` values. One that is read and not known
    raises `UnknownAttributeError`.
    """

    def __init__(self, called: Called, facts: Facts, assumed: Mapping[str, Attribute]) -> None:
        self._called = called
        self._facts = facts
        self._assumed = assumed

    def __getitem__(self, name: str) -> Attribute:
        if name not in operators()[self._called.call.ops[0]].attrs:
            raise KeyError(name)
        if name in self._assumed:
            return self._assumed[name]
        if is_none(self._called, self._facts, name):
            return None
        value = self._facts.of(self._called.attribute(name)).only()
        if value is None:
            value = asked_list(self._called, self._facts, name)
        if value is not None:
            return value
        if name in _NOT_OF_SHAPES:
            return _UNKNOWN
        if name in _COUNTS:
            return None
        raise UnknownAttributeError(name)

    def __iter__(self) -> Iterator[str]:
        raise UnknownAttributeError

    def __len__(self) -> int:
        raise UnknownAttributeError
