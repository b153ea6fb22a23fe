"""Nodes of all operators with operands that they take, and random changes of them."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from random import Random
from typing import Any
from unittest.mock import patch

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper
from onnx.reference.ops import op_pool_common

from tests.fuzz.more_nodes import written

Array = np.ndarray[Any, Any]
Schema = onnx.defs.OpSchema
Option = Schema.FormalParameterOption

TRAINING = "ai.onnx.preview.training"


@dataclass(frozen=True, slots=True)
class NodeCase:
    """
    A node of an operator set, and what it takes: arrays, lists of arrays for sequences, None for an
    operand that is left out or an optional that is empty.
    """

    node: NodeProto
    operands: tuple[Any, ...]
    opset: int

    @property
    def key(self) -> tuple[str, str]:
        return self.node.domain, self.node.op_type

    @property
    def schema(self) -> Schema | None:
        return schema_of(self.key, self.opset)

    def parameters(self) -> list[Schema.FormalParameter | None]:
        """What the operator declares of each operand; None where nothing is known."""
        if self.schema is None:
            return [None] * len(self.operands)
        declared = list(self.schema.inputs)
        return [declared[min(place, len(declared) - 1)] for place in range(len(self.operands))]

    def with_attributes(self, values: Mapping[str, Any]) -> "NodeCase":
        """The same with other attributes; those that are None are left out."""
        node = NodeProto()
        node.CopyFrom(self.node)
        del node.attribute[:]
        node.attribute.extend(each for each in self.node.attribute if each.name not in values)
        for name, value in values.items():
            if value is not None:
                node.attribute.append(helper.make_attribute(name, value))
        return replace(self, node=node)


@cache
def schema_of(key: tuple[str, str], opset: int) -> Schema | None:
    """The definition of an operator; None where onnx has none, as for those of onnxruntime."""
    domain, name = key
    try:
        if domain:
            return onnx.defs.get_schema(name, domain)
        return onnx.defs.get_schema(name, opset, domain)
    except onnx.defs.SchemaError:
        return None


@cache
def cases() -> Mapping[tuple[str, str], Sequence[NodeCase]]:
    """The cases of each operator: those of the tests of onnx, and more."""
    found: dict[tuple[str, str], list[NodeCase]] = {}
    for case in (*_of_onnx(), *(NodeCase(*each) for each in written())):
        found.setdefault(case.key, []).append(case)
    return dict(sorted(found.items()))


def _of_onnx() -> Iterator[NodeCase]:
    # The right outputs are not needed, and those of poolings take long.
    def quick(padded: Array, shape: Sequence[int], *rest: Any, **_: Any) -> Array:
        return np.zeros([*shape[:2], *rest[2]], padded.dtype)

    with warnings.catch_warnings(), patch.object(op_pool_common, "pool", quick):
        warnings.simplefilter("ignore")
        from onnx.backend.test import loader  # computes all tests as it is imported

        tests = loader.load_model_tests(kind="node")
    for test in tests:
        graph = test.model.graph
        if len(graph.node) != 1 or graph.initializer:
            continue
        node = graph.node[0]
        given = dict(zip((each.name for each in graph.input), test.data_sets[0][0], strict=True))
        operands = tuple(_value(given[name]) if name else None for name in node.input)
        opset = max((o.version for o in test.model.opset_import if not o.domain), default=0)
        yield NodeCase(node, operands, opset or onnx.defs.onnx_opset_version())


def _value(given: Any) -> Any:
    if isinstance(given, TensorProto):
        return numpy_helper.to_array(given)
    if isinstance(given, np.generic):
        return np.asarray(given)
    return list(map(_value, given)) if isinstance(given, list) else given


# ---- Older operator sets ----

_OTHER_NAMES = {("Pad", "constant_value"): "value"}
"""What an operand was called when it was an attribute."""


def of_opset(case: NodeCase, opset: int) -> NodeCase | None:
    """
    The same in another operator set, in older ones of which operands may be attributes; None where
    the operator is not in it. onnxruntime may refuse it.
    """
    if case.node.domain:
        return replace(case, opset=opset)
    new, old = case.schema, schema_of(case.key, opset)
    if new is None:
        return replace(case, opset=opset)
    if old is None or old.deprecated:
        return None
    if new.since_version == old.since_version or opset > case.opset:
        return replace(case, opset=opset)  # Many definitions differ by the types that they take.
    values: dict[str, Any] = {
        each.name: None for each in case.node.attribute if each.name not in old.attributes
    }
    kept = list(case.operands)
    for place in range(len(kept) - 1, -1, -1):
        name = new.inputs[min(place, len(new.inputs) - 1)].name
        name = _OTHER_NAMES.get((new.name, name), name.lower())
        if name in old.attributes and place >= len(old.inputs):
            if kept[place] is not None:
                listed = np.asarray(kept[place]).tolist()
                is_one = isinstance(listed, list) and old.attributes[name].type.name in (
                    "INT",
                    "FLOAT",
                )
                values[name] = listed[0] if is_one and listed else listed
                if listed == []:
                    return None
            kept.pop(place)
    changed = case.with_attributes(values)
    return replace(changed, operands=tuple(kept[: old.max_input]), opset=opset)


# ---- Changes ----

DTYPES: Mapping[str, Any] = {
    f"tensor({TensorProto.DataType.Name(number).lower()})": helper.tensor_dtype_to_np_dtype(number)
    for number in (
        *(TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.BFLOAT16),
        *(TensorProto.INT8, TensorProto.INT16, TensorProto.INT32, TensorProto.INT64),
        *(TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64),
        TensorProto.BOOL,
    )
}

NAMES = {dtype: name for name, dtype in DTYPES.items()}


def changed(case: NodeCase, chosen: Random) -> NodeCase:
    """`case` with another size, shape, type or attribute, or without an operand."""
    often = _resized, _retyped, _with_attribute
    change = chosen.choice((*often, *often, _reshaped, _shortened, _filled))
    return change(case, chosen)


SIZES = (0, 1, 1, 2, 3, 4, 5, 7)


def _resized(case: NodeCase, chosen: Random) -> NodeCase:
    """One size in place of another, wherever it occurs."""
    sizes = sorted({d for each in case.operands if is_numbers(each) for d in each.shape})
    if not sizes:
        return case
    old, new = chosen.choice(sizes), chosen.choice(SIZES)

    def resized(array: Any) -> Any:
        if not is_numbers(array) or old not in array.shape:
            return array
        return filled(array, tuple(new if size == old else size for size in array.shape))

    return replace(case, operands=tuple(map(resized, case.operands)))


def _reshaped(case: NodeCase, chosen: Random) -> NodeCase:
    """Operands of shapes that are broadcast to one; or the first with one axis more or fewer."""
    shape = tuple(chosen.choices(SIZES, k=chosen.randrange(6)))
    if chosen.random() < 0.6:

        def broadcast(array: Any) -> Any:
            if not is_numbers(array):
                return array
            part = tuple(size if chosen.random() < 0.7 else 1 for size in shape)
            least = chosen.randrange(len(part) + 1) if chosen.random() < 0.3 else 0
            return filled(array, part[least:])

        return replace(case, operands=tuple(map(broadcast, case.operands)))
    if not case.operands or not is_numbers(case.operands[0]):
        return case
    first = case.operands[0]
    other = (chosen.choice(SIZES), *first.shape) if chosen.random() < 0.6 else first.shape[1:]
    return replace(case, operands=(filled(first, other), *case.operands[1:]))


def _retyped(case: NodeCase, chosen: Random) -> NodeCase:
    """Another type of elements, for all operands that have to be of one type."""
    if case.schema is None:
        return case
    parameters = case.parameters()
    names = [
        parameter.type_str
        for parameter, array in zip(parameters, case.operands, strict=True)
        if parameter and is_numbers(array)
    ]
    if not names:
        return case
    name = chosen.choice(names)
    allowed = next((p.types for p in parameters if p and p.type_str == name), set())
    dtypes = [dtype for text, dtype in DTYPES.items() if text in allowed]
    if not dtypes:
        return case
    dtype = chosen.choice(dtypes)
    operands = (
        converted(array, dtype) if p and p.type_str == name and is_numbers(array) else array
        for p, array in zip(parameters, case.operands, strict=True)
    )
    return replace(case, operands=tuple(operands))


def _with_attribute(case: NodeCase, chosen: Random) -> NodeCase:
    """Another value of an attribute, or none."""
    schema = case.schema
    seen = _seen()
    if schema is None or not schema.attributes or schema.name == "Constant":
        return case
    name = chosen.choice(sorted(schema.attributes))
    given = {each.name: helper.get_attribute_value(each) for each in case.node.attribute}
    known = seen.get((*case.key, name), ())
    match chosen.randrange(4):
        case 0 if name in given:
            return case.with_attributes({name: None})
        case 1 if known:
            return case.with_attributes({name: chosen.choice(known)})
    value = _drawn(schema.attributes[name], given.get(name), case, chosen)
    return case if value is None else case.with_attributes({name: value})


@cache
def _seen() -> Mapping[tuple[str, str, str], Sequence[Any]]:
    """The values of each attribute in the cases."""
    found: dict[tuple[str, str, str], dict[str, Any]] = {}
    for key, known in cases().items():
        for case in known:
            for each in case.node.attribute:
                if each.type not in (each.GRAPH, each.TENSOR):
                    value = helper.get_attribute_value(each)
                    found.setdefault((*key, each.name), {})[repr(value)] = value
    return {key: tuple(values.values()) for key, values in found.items()}


def _drawn(declared: Any, given: Any, case: NodeCase, chosen: Random) -> Any:
    kind = declared.type.name
    rank = next((each.ndim for each in case.operands if is_numbers(each)), 0)
    if kind == "INT" and declared.name in ("to", "dtype", "output_datatype"):
        return helper.np_dtype_to_tensor_dtype(np.dtype(chosen.choice(tuple(DTYPES.values()))))
    if kind == "INT" and _default(declared) in (0, 1) and "axis" not in declared.name:
        return chosen.choice((0, 1))
    if kind == "INT":
        axes = (*range(-rank, rank),) if "ax" in declared.name else (0, 1)
        return chosen.choice((*axes, 0, 1, 1, 2, 3))
    if kind == "INTS":
        count = len(given) if given else chosen.randint(1, max(1, rank))
        if given and chosen.random() < 0.3:
            return chosen.sample(list(given), len(given))
        if "ax" in declared.name and rank:
            return chosen.sample(range(-rank, rank), chosen.randint(1, rank))
        return [chosen.choice((0, 1, 1, 2, 3)) for _ in range(count)]
    if kind == "FLOAT":
        return chosen.choice((0.0, 0.5, 1.0, -1.0, 2.0, 1e-3))
    return None


def _default(declared: Any) -> Any:
    value = declared.default_value
    return helper.get_attribute_value(value) if value.type else None


def _shortened(case: NodeCase, chosen: Random) -> NodeCase:
    """Without an operand that may be left out, or with one fewer or more of any number."""
    if case.schema is None or not case.operands:
        return case
    place = chosen.randrange(len(case.operands))
    parameter = case.parameters()[place]
    assert parameter is not None
    before, after = case.operands[:place], case.operands[place + 1 :]
    if parameter.option == Option.Variadic:
        again = chosen.choice(((), (case.operands[place],) * 2))
        return replace(case, operands=(*before, *again, *after))
    if parameter.option == Option.Optional:
        return replace(case, operands=(*before, None, *after))
    return case


def _filled(case: NodeCase, chosen: Random) -> NodeCase:
    """Other numbers in one operand."""
    places = [place for place, each in enumerate(case.operands) if is_numbers(each)]
    if not places:
        return case
    place = chosen.choice(places)
    array = case.operands[place]
    generator = np.random.default_rng(chosen.randrange(2**32))
    if array.dtype.kind in "iu" and chosen.random() < 0.5:
        low = 0 if array.dtype.kind == "u" else -3
        other = np.asarray(generator.integers(low, 4, array.shape), array.dtype)
    else:
        other = generator.permuted(array.reshape(-1)).reshape(array.shape)
    operands = list(case.operands)
    operands[place] = other
    return replace(case, operands=tuple(operands))


# ---- Arrays ----


def is_numbers(value: Any) -> bool:
    """Whether a value is a tensor of numbers of a byte or more."""
    return isinstance(value, np.ndarray) and value.dtype in NAMES


def filled(array: Array, shape: Sequence[int]) -> Array:
    """An array of another shape with the elements of `array`, again from the start."""
    source = array.reshape(-1)
    if not source.size:
        source = np.zeros(1, array.dtype)
    return np.asarray(np.resize(source, shape), array.dtype)


def converted(array: Array, dtype: Any) -> Array:
    """`array` of another type, with numbers that it has."""
    wanted = np.dtype(dtype)
    if wanted.kind == "b":
        return np.asarray(array.astype(np.float64) > 0)
    if wanted.kind in "iu":
        info = np.iinfo(wanted)
        wide = np.nan_to_num(array.astype(np.float64))
        if array.dtype.kind not in "iub":
            wide = np.round(np.clip(wide, -(2.0**62), 2.0**62) * 3)
        return np.asarray(np.clip(wide, max(info.min, -(2**31)), min(info.max, 2**31)), wanted)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(array, wanted)
