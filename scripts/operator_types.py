"""
Find what an operator takes and gives, by asking TVM for the types of calls like a sample call.

TVM says what it accepts only by refusing the rest. So a tensor is replaced by a tuple, or its
dtype by another, and the type of the changed call is what the table says.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from tvm import relax

from collage_dsl.graph.types import dtype_names, long_dtype, short_dtype

DTYPES = ("float32", "float16", "float64", "int8", "uint8", "int32", "int64", "bool")

Column = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Asked:
    """An attribute that is a dtype, and the calls that have it."""

    attribute: str
    calls: Mapping[str, relax.Call]
    """By the dtype that the attribute is."""

    def says(self, field: int) -> bool:
        """Whether a result has the dtype that the attribute says."""
        found = {dtype: accepted(call) for dtype, call in self.calls.items()}
        known = {dtype: dtypes_of(type_) for dtype, type_ in found.items() if type_ is not None}
        return len(known) > 1 and all(known[dtype][field] == dtype for dtype in known)


def columns(
    samples: Sequence[relax.Call], operands: Sequence[str], asked: Sequence[Asked]
) -> Column:
    """
    The columns `takes`, `gives`, `same_dtype` and `dtypes` of an operator.

    `takes` is what each operand is: a "tensor", a "tuple" of tensors, a "list" or a "number" that
    is written in the program, or "any" of these. `gives` is "tensor", "shape", or the number of
    tensors in the tuple; null if that depends on attributes. `same_dtype` lists the operands
    that must have one dtype. `dtypes` has, for each result, the operand whose dtype it has, or
    the attribute that says it, in brackets, or the dtype that it always has. `accepts` has the
    dtypes of each operand, and in brackets of each attribute, of which TVM refuses some.
    """
    call = samples[0]
    gives = {_gives(type_of(sample)) for sample in samples}
    found: Column = {
        "takes": [*map(_takes, [call] * len(call.args), range(len(call.args)))],
        "gives": gives.pop() if len(gives) == 1 else None,
    }
    found["takes"] += ["any"] * (len(operands) - len(call.args))
    if agree := same_dtype(next((ask.calls[DTYPES[0]] for ask in asked), call)):
        found["same_dtype"] = [operands[at] for at in agree]
    if accepts := dict(_accepts(call, operands, agree, asked)):
        found["accepts"] = accepts
    of_samples = [list(_dtypes(each, agree, operands, asked)) for each in samples]
    if any(dtypes := _common(of_samples)):
        found["dtypes"] = dtypes
    return found


def _common(columns: Sequence[list[str | None]]) -> list[str | None]:
    """For each result, what all columns that have it say; None where they differ."""
    results = [{each for each in result if each} for result in zip_longest(*columns)]
    return [result.pop() if len(result) == 1 else None for result in results]


def type_of(call: relax.Call) -> Any:
    """The type that TVM infers for `call`. Raises if TVM refuses the call."""
    builder = relax.BlockBuilder()
    with builder.function("main", []):
        with builder.dataflow():
            found = builder.normalize(call)
            result = builder.emit_output(found)
        builder.emit_func_output(result)
    return found.ty


def accepted(call: relax.Call) -> Any:
    """The type of `call`; None if TVM refuses it."""
    try:
        return type_of(call)
    except Exception:  # TVM refuses with errors of many classes, all of its own
        return None


def _gives(type_: Any) -> str | int | None:
    if isinstance(type_, relax.TensorType):
        return "tensor"
    if isinstance(type_, relax.TupleType):
        return len(type_.fields)
    return "shape" if isinstance(type_, relax.ShapeType) else None


def _takes(call: relax.Call, at: int) -> str:
    type_ = call.args[at].ty
    if isinstance(type_, relax.TensorType):
        pair = relax.Tuple([call.args[at]] * 2)
        return "tensor" if accepted(with_operand(call, at, pair)) is None else "any"
    if isinstance(type_, relax.ShapeType):
        return "list"
    if isinstance(type_, relax.TupleType):
        if not all(isinstance(field, relax.TensorType) for field in type_.fields):
            return "list"
        tensor = relax.Var("x", type_.fields[0])
        return "tuple" if accepted(with_operand(call, at, tensor)) is None else "any"
    return "number" if hasattr(type_, "dtype") else "any"


def with_operand(call: relax.Call, at: int, operand: Any) -> relax.Call:
    operands = [operand if place == at else each for place, each in enumerate(call.args)]
    return relax.Call(call.op, operands, call.attrs)


# Dtypes.


def with_dtype(call: relax.Call, places: Sequence[int], dtype: str | None) -> relax.Call:
    """`call` with tensors of `dtype` at `places`; `call` itself for None."""
    for at in places if dtype is not None else ():
        call = with_operand(call, at, _of_dtype(call.args[at].ty, dtype))
    return call


def _of_dtype(type_: Any, dtype: str) -> Any:
    if isinstance(type_, relax.TupleType):
        return relax.Tuple([_of_dtype(field, dtype) for field in type_.fields])
    return relax.Var("x", relax.TensorType(type_.shape, dtype))


def dtypes_of(type_: Any) -> list[str]:
    """The dtypes of the tensors in `type_`."""
    if isinstance(type_, relax.TensorType):
        return [str(type_.dtype)]
    if isinstance(type_, relax.TupleType):
        return [dtype for field in type_.fields for dtype in dtypes_of(field)]
    return []


def computed(call: relax.Call) -> list[int]:
    """The places of the operands that are tensors, or tuples of tensors."""
    return [at for at, operand in enumerate(call.args) if dtypes_of(operand.ty)]


def same_dtype(call: relax.Call) -> list[int]:
    """
    The places of the operands that must have one dtype; none if no two must.

    One of them may be `bool` all the same, because TVM adds a `bool` to anything.
    """
    fixed: dict[str, list[int]] = {}
    for at in computed(call):
        if all(accepted(with_dtype(call, [at], dtype)) is None for dtype in _others(call, at)):
            fixed.setdefault(dtypes_of(call.args[at].ty)[0], []).append(at)
    groups = [places for places in fixed.values() if len(places) > 1 and _may_change(call, places)]
    return groups[0] if groups else [at for at in computed(call) if _have_one_dtype(call, at)][:1]


def _others(call: relax.Call, at: int) -> list[str]:
    """The dtypes of numbers that the operand at the place `at` does not have."""
    return [dtype for dtype in DTYPES if dtype not in ("bool", dtypes_of(call.args[at].ty)[0])]


def _may_change(call: relax.Call, places: Sequence[int]) -> bool:
    """Whether other dtypes are accepted if all operands at `places` have the same."""
    others = _others(call, places[0])
    return any(accepted(with_dtype(call, places, dtype)) is not None for dtype in others)


def _have_one_dtype(call: relax.Call, at: int) -> bool:
    """Whether all tensors of the tuple at the place `at` must have one dtype."""
    type_ = call.args[at].ty
    if not isinstance(type_, relax.TupleType) or len(type_.fields) < 2:
        return False
    first, *rest = type_.fields
    for dtype in _others(call, at):
        fields = [_of_dtype(first, dtype), *(relax.Var("x", field) for field in rest)]
        if accepted(with_operand(call, at, relax.Tuple(fields))) is not None:
            return False
    return True


def _accepts(
    call: relax.Call, operands: Sequence[str], agree: Sequence[int], asked: Sequence[Asked]
) -> Iterator[tuple[str, list[str]]]:
    """
    The dtypes that each operand can have, in a call like the sample: alone, together with those
    that have the same one, or as all operands have; whatever dtype an attribute says.
    """
    every = [call, *(made for ask in asked for made in ask.calls.values())]
    places = computed(call)
    for at in places:
        groups = [[at], places, *([agree] if at in agree else [])]
        yield from _unless_all(operands[at], [(each, group) for each in every for group in groups])
    for ask in asked:
        taken = [
            short_dtype(dtype)
            for dtype, made in ask.calls.items()
            if any(accepted(with_dtype(made, places, other)) for other in (*DTYPES, None))
        ]
        if taken and len(taken) < len(ask.calls):
            yield f"[{ask.attribute}]", taken


def _unless_all(
    name: str, tried: Sequence[tuple[relax.Call, Sequence[int]]]
) -> Iterator[tuple[str, list[str]]]:
    taken = [
        dtype
        for dtype in dtype_names()
        if any(accepted(with_dtype(call, at, str(long_dtype(dtype)))) for call, at in tried)
    ]
    if taken and len(taken) < len(dtype_names()):
        yield name, taken


def _dtypes(
    call: relax.Call, agree: Sequence[int], operands: Sequence[str], asked: Sequence[Asked]
) -> Iterator[str | None]:
    """What the dtype of each result follows from."""
    groups = [list(agree)] if agree else []
    groups += [[at] for at in computed(call) if at not in agree]
    tried = {group[0]: list(_tried(call, group)) for group in groups}
    numbered = list(_with_other_numbers(call))
    for field, dtype in enumerate(dtypes_of(type_of(call))):
        said = [ask.attribute for ask in asked if ask.says(field)]
        followed = [at for at, results in tried.items() if _follows(results, field)]
        if said:
            yield f"[{said[0]}]"
        elif followed:
            yield operands[followed[0]]
        elif any(results[field] != dtype for results in numbered):
            yield None  # the dtype of a number that is written decides
        elif any(r[field] != dtype for each in tried.values() for _, r in each):
            yield None
        else:
            yield dtype


def _with_other_numbers(call: relax.Call) -> Iterator[list[str]]:
    """The dtypes of the results where all numbers that are written are whole, or all are not."""
    places = [at for at in range(len(call.args)) if _takes(call, at) == "number"]
    for number in (1, 1.0) if places else ():
        changed = call
        for at in places:
            changed = with_operand(changed, at, relax.prim_value(number))
        type_ = accepted(changed)
        if type_ is not None:
            yield dtypes_of(type_)


def _tried(call: relax.Call, places: Sequence[int]) -> Iterator[tuple[str, list[str]]]:
    """Each dtype that TVM accepts at `places`, with the dtypes of the results."""
    for dtype in DTYPES:
        type_ = accepted(with_dtype(call, places, dtype))
        if type_ is not None:
            yield dtype, dtypes_of(type_)


def _follows(tried: Sequence[tuple[str, list[str]]], field: int) -> bool:
    return len(tried) > 1 and all(results[field] == dtype for dtype, results in tried)
