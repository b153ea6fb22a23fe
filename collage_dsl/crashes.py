"""
Keep away from kernels of onnxruntime what ends the process.

- A division of the least integer by -1 gives that integer, and its rest is 0, as in native kernels.
- Other kernels are not run on tensors without elements along some axes: that is an error.
- Outputs that a node has to give have names: a `Split` or `Loop` writes to those without a name.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, TypeProto, helper, numpy_helper

from collage_dsl.onnx_nodes import graphs_of, nodes_within

Dims = Sequence[int | None]
"""The shape of a tensor, with None for a size that is not known."""

_STANDARD = ("", "ai.onnx")


def may_crash(model: onnx.ModelProto) -> bool:
    """Whether `model` has an operator that ends the process for some operands."""
    scopes: list[Body] = [model.graph, *model.functions]
    return any(node.op_type in _CHANGES for scope in scopes for node in nodes_within(scope.node))


def without_crashes(
    model: onnx.ModelProto, types: Iterable[onnx.ValueInfoProto] = ()
) -> onnx.ModelProto:
    """
    `model` for onnxruntime. It is copied only if something is changed. Values inside it have the
    `types`, and those that follow from inputs, constants and operators. Where the type of a divisor
    is not known, as in functions, the division stays as it is.
    """
    values = list(types)
    if not may_crash(model) or not _visited(model, values, replaces=False):
        return model
    result = onnx.ModelProto()
    result.CopyFrom(model)
    _visited(result, values, replaces=True)
    return result


def without_crashes_in(text: bytes) -> bytes:
    """`without_crashes` for a model as it is saved."""
    model = onnx.load_from_string(text)
    found = without_crashes(model)
    return text if found is model else found.SerializeToString()


# ---- What is known of the values ----


@dataclass(frozen=True, slots=True)
class _Known:
    """Of the values of one body and those around it: types of elements, shapes, constants."""

    versions: Mapping[str, int]
    elements: dict[str, int] = field(default_factory=dict)
    dims: dict[str, Dims] = field(default_factory=dict)
    constants: dict[str, TensorProto] = field(default_factory=dict)
    free: set[str] = field(default_factory=set)
    """Values that depend on inputs, or on constants without elements."""

    @property
    def opset(self) -> int:
        return self.versions.get("", 1)

    def inside(self) -> "_Known":
        known = {**self.elements}, {**self.dims}, {**self.constants}
        return _Known(self.versions, *known, {*self.free})

    def declare(self, name: str, type_: TypeProto) -> None:
        if not type_.HasField("tensor_type"):
            return
        tensor = type_.tensor_type
        if tensor.elem_type:
            self.elements[name] = tensor.elem_type
        if tensor.HasField("shape"):
            self.dims[name] = [
                dim.dim_value if dim.HasField("dim_value") else None for dim in tensor.shape.dim
            ]

    def add(self, name: str, tensor: TensorProto) -> None:
        self.constants[name] = tensor
        self.elements[name] = tensor.data_type
        self.dims[name] = list(tensor.dims)
        if 0 not in tensor.dims:
            self.free.discard(name)
        else:
            self.free.add(name)

    def learn(self, node: onnx.NodeProto) -> None:
        """The types of elements of what a node gives, and whether that depends on inputs."""
        if not self.free.isdisjoint(node.input) or next(graphs_of(node), None) is not None:
            self.free.update(node.output)
        attributes = {each.name: each for each in node.attribute}
        if node.op_type == "Constant" and "value" in attributes:
            self.add(node.output[0], attributes["value"].t)
        for name, element in zip(node.output, self._given(node, attributes), strict=False):
            if name and element:
                self.elements.setdefault(name, element)

    def _given(
        self, node: onnx.NodeProto, attributes: Mapping[str, AttributeProto]
    ) -> Iterator[int]:
        body = next((each.g for each in node.attribute if each.HasField("g")), None)
        if body is not None:
            start = 1 if node.op_type == "Loop" else 0  # The first says whether to go on.
            yield from (each.type.tensor_type.elem_type for each in body.output[start:])
        elif node.op_type == "Cast":
            yield attributes["to"].i if "to" in attributes else 0
        else:
            yield from self._by_definition(node)

    def _by_definition(self, node: onnx.NodeProto) -> Iterator[int]:
        schema = _schema(node, self.versions)
        if schema is None:
            return
        types = {}
        for place, name in enumerate(node.input):
            if name in self.elements and schema.inputs:
                formal = schema.inputs[min(place, len(schema.inputs) - 1)]
                types[formal.type_str] = self.elements[name]
        for place in range(len(node.output) if schema.outputs else 0):
            text = schema.outputs[min(place, len(schema.outputs) - 1)].type_str
            yield types.get(text) or _TYPES.get(text, 0)


_TYPES = {
    "tensor(int32)": TensorProto.INT32,
    "tensor(int64)": TensorProto.INT64,
}


def _schema(node: onnx.NodeProto, versions: Mapping[str, int]) -> onnx.defs.OpSchema | None:
    domain = "" if node.domain in _STANDARD else node.domain
    try:
        return onnx.defs.get_schema(node.op_type, versions.get(domain, 1), domain)
    except onnx.defs.SchemaError:
        return None


# ---- What is changed ----

Body: TypeAlias = onnx.GraphProto | onnx.FunctionProto


def _visited(
    model: onnx.ModelProto, types: Iterable[onnx.ValueInfoProto], *, replaces: bool
) -> bool:
    """Whether nodes of `model` are to be replaced, which is done if it `replaces` them."""
    known = _Known(_versions(model))
    for value in types:
        known.declare(value.name, value.type)
    found = [_visit(model.graph, known, replaces=replaces)]
    for function in model.functions:
        found.append(_visit(function, _Known(_versions(function)), replaces=replaces))
    return any(found)


def _versions(scope: onnx.ModelProto | onnx.FunctionProto) -> dict[str, int]:
    names = dict.fromkeys(_STANDARD, "")
    return {names.get(each.domain, each.domain): each.version for each in scope.opset_import}


def _visit(body: Body, known: _Known, *, replaces: bool) -> bool:
    """The same for one body. Bodies inside come first, for a node is replaced with those in it."""
    known.free.update(each if isinstance(each, str) else each.name for each in body.input)
    if isinstance(body, onnx.GraphProto):
        for value in (*body.input, *body.value_info, *body.output):
            known.declare(value.name, value.type)
        for tensor in body.initializer:
            known.add(tensor.name, tensor)
    nodes, is_changed, is_changed_inside = list[onnx.NodeProto](), False, False
    for node in body.node:
        for inner in graphs_of(node):
            is_changed_inside |= _visit(inner, known.inside(), replaces=replaces)
        change = _CHANGES.get(node.op_type) if node.domain in _DOMAINS else None
        made = change(node, known) if change else None
        nodes += made or [node]
        is_changed |= bool(made)
        known.learn(node)
    if is_changed and replaces:
        copies = list(map(_copy, nodes))
        del body.node[:]
        body.node.extend(copies)
    return is_changed or is_changed_inside


_DOMAINS = (*_STANDARD, "ai.onnx.ml", "com.microsoft")


class _Names:
    """Makes nodes before a `node`, with names of their own."""

    def __init__(self, node: onnx.NodeProto) -> None:
        self.stem = next(filter(None, node.output), node.name)
        self.made: list[onnx.NodeProto] = []

    def emit(self, op: str, *inputs: str, name: str = "", **attributes: Any) -> str:
        result = f"{self.stem}:safe:{len(self.made)}"
        self.made.append(helper.make_node(op, list(inputs), [result], name, **attributes))
        return result

    def constant(self, value: object, element: int = TensorProto.INT64) -> str:
        array = np.asarray(value, helper.tensor_dtype_to_np_dtype(element))
        return self.emit("Constant", value=numpy_helper.from_array(array))

    def is_equal(self, name: str, value: int, element: int) -> str:
        """1 where the integers `name` are this `value`, else 0."""
        equal = self.emit("Equal", name, self.constant(value, element))
        return self.emit("Cast", equal, to=element)

    def with_elements(self, node: onnx.NodeProto, place: int, axes: Dims | None = None) -> None:
        """
        Let `node` take the operand at `place` only if it has elements along `axes`, by default
        along all: else an error says so, since no shape has a size of -2.
        """
        taken = node.input[place]
        shape = self.emit("Shape", taken)
        wrong = self.emit(
            "Mul", self.is_equal(shape, 0, TensorProto.INT64), self.constant(axes or 2)
        )
        said = f"operand {place} of {node.op_type} `{self.stem}`, which needs elements"
        node.input[place] = self.emit("Reshape", taken, self.emit("Sub", shape, wrong), name=said)


def _copy(node: onnx.NodeProto) -> onnx.NodeProto:
    result = onnx.NodeProto()
    result.CopyFrom(node)
    return result


def _is_given(node: onnx.NodeProto, place: int) -> bool:
    return len(node.input) > place and bool(node.input[place])


def _attribute(node: onnx.NodeProto, name: str) -> Any:
    found = next((each for each in node.attribute if each.name == name), None)
    return None if found is None else helper.get_attribute_value(found)


Change = Callable[[onnx.NodeProto, _Known], Sequence[onnx.NodeProto] | None]


# ---- Divisions ----


def _division(node: onnx.NodeProto, known: _Known) -> Sequence[onnx.NodeProto] | None:
    """A division by 1 in place of -1, with the other sign."""
    if len(node.input) != 2 or node.domain not in _STANDARD or known.opset < 7:
        return None
    element = known.elements.get(node.input[1], known.elements.get(node.input[0], 0))
    if element not in (TensorProto.INT32, TensorProto.INT64):
        return None
    if not _may_hold(known.constants.get(node.input[1]), -1):
        return None
    names, result = _Names(node), _copy(node)
    one = names.is_equal(node.input[1], -1, element)
    two = names.emit("Add", one, one)
    result.input[1] = names.emit("Add", node.input[1], two)
    if node.op_type == "Mod":
        return [*names.made, result]
    result.output[0] = f"{names.stem}:safe"
    sign = names.emit("Sub", names.constant(1, element), two)
    made = helper.make_node("Mul", [result.output[0], sign], [node.output[0]])
    return [*names.made, result, made]


def _may_hold(tensor: TensorProto | None, number: int) -> bool:
    """Whether a constant may hold this number; None is one that is not known."""
    if tensor is None or tensor.data_location == TensorProto.EXTERNAL:
        return True
    return bool((numpy_helper.to_array(tensor) == number).any())


# ---- Outputs without a name ----


def with_named_outputs(model: onnx.ModelProto) -> onnx.ModelProto:
    """`model`, in which outputs have names that are not optional. It is copied if one has none."""
    if next(_unnamed(model), None) is None:
        return model
    result = onnx.ModelProto()
    result.CopyFrom(model)
    for node, place in _unnamed(result):
        node.output[place] = f"{next(filter(None, node.output))}:unused:{place}"
    return result


def _unnamed(model: onnx.ModelProto) -> Iterator[tuple[onnx.NodeProto, int]]:
    """The nodes, and the places of their outputs, that have no name and are not optional."""
    for scope in (model, *model.functions):
        versions, body = _versions(scope), getattr(scope, "graph", scope)
        for node in nodes_within(body.node):
            schema = _schema(node, versions) if "" in node.output and any(node.output) else None
            if schema is None or not schema.outputs:
                continue
            for place, name in enumerate(node.output):
                formal = schema.outputs[min(place, len(schema.outputs) - 1)]  # It may be repeated.
                if not name and formal.option != _OPTIONAL:
                    yield node, place


_OPTIONAL = onnx.defs.OpSchema.FormalParameterOption.Optional


# ---- Operands without elements ----


def _positive(dims: Dims | None, axes: Sequence[int]) -> bool:
    """Whether a tensor has elements along `axes`, as far as its shape says."""
    return dims is not None and all(axis < len(dims) and dims[axis] for axis in axes)


def _recurrent(node: onnx.NodeProto, known: _Known) -> Sequence[onnx.NodeProto] | None:
    """onnxruntime needs a batch, and `GRU` also features, and steps if no lengths are given."""
    axes = [1]
    if node.op_type == "GRU":
        axes = [1, 2] if _is_given(node, 4) else [0, 1, 2]
    if not node.input or _positive(known.dims.get(node.input[0]), axes):
        return None
    names, result = _Names(node), _copy(node)
    names.with_elements(result, 0, [2 * (axis in axes) for axis in range(3)])
    return [*names.made, result]


def _batch(node: onnx.NodeProto, known: _Known) -> Sequence[onnx.NodeProto] | None:
    """onnxruntime needs a batch, along the first axis of each operand that the operator joins."""
    names, result = _Names(node), _copy(node)
    for place in range(1 if node.op_type == "QAttention" else len(node.input)):
        dims = known.dims.get(node.input[place])
        if not _positive(dims, [0]):
            axes = None if dims is None else [2, *([0] * (len(dims) - 1))]
            names.with_elements(result, place, axes)
    return [*names.made, result] if names.made else None


def _attention(node: onnx.NodeProto, known: _Known) -> Sequence[onnx.NodeProto] | None:
    """onnxruntime divides by the number of heads, which four dimensions say."""
    if node.domain not in _STANDARD or not _is_given(node, 1) or _attribute(node, "kv_num_heads"):
        return None
    dims = known.dims.get(node.input[1])
    if (dims is not None and len(dims) != 4) or _positive(dims, [1]):
        return None
    names, result = _Names(node), _copy(node)
    names.with_elements(result, 1, [0, 2, 0, 0])
    return [*names.made, result]


def _quantized(node: onnx.NodeProto, known: _Known) -> Sequence[onnx.NodeProto] | None:
    """onnxruntime divides by the size of an axis that is quantized in blocks."""
    dims = known.dims.get(node.input[0]) if node.input else None
    if not _attribute(node, "block_size") or (dims is not None and all(dims)):
        return None
    names, result = _Names(node), _copy(node)
    names.with_elements(result, 0)
    return [*names.made, result]


def _convolution(node: onnx.NodeProto, known: _Known) -> Sequence[onnx.NodeProto] | None:
    """onnxruntime may not end where weights have outputs, but no elements for each of them."""
    if not _is_given(node, 1) or node.input[1] not in known.free:
        return None
    dims = known.dims.get(node.input[1])
    rank = len(dims or known.dims.get(node.input[0]) or ())
    if rank and _positive(dims, range(1, rank)):
        return None
    names, result = _Names(node), _copy(node)
    names.with_elements(result, 1, [0, *[2] * (rank - 1)] if rank else None)
    return [*names.made, result]


def _spectrum(node: onnx.NodeProto, known: _Known) -> Sequence[onnx.NodeProto] | None:
    """onnxruntime divides by the length of a frame, but refuses one of -1."""
    names, result = _Names(node), _copy(node)
    if _is_given(node, 3):
        element = known.elements.get(node.input[3], 0)
        constant = known.constants.get(node.input[3])
        if element in (TensorProto.INT32, TensorProto.INT64) and _may_hold(constant, 0):
            is_zero = names.is_equal(node.input[3], 0, element)
            result.input[3] = names.emit("Sub", node.input[3], is_zero)
    if _is_given(node, 2) and not _positive(known.dims.get(node.input[2]), [0]):
        names.with_elements(result, 2)
    return [*names.made, result] if names.made else None


def _scan(node: onnx.NodeProto, known: _Known) -> Sequence[onnx.NodeProto] | None:
    """
    onnxruntime divides by the length of a sequence, unless that is the first axis. A `Scan` of
    set 8 needs a batch; its first operand are the lengths.
    """
    body, is_old = next(graphs_of(node), None), known.opset < 9
    count = len(node.input) - 1 if is_old else _attribute(node, "num_scan_inputs") or 0
    axes = [0] * count if is_old else _attribute(node, "scan_input_axes") or []
    if body is None or len(axes) != count or count > min(len(node.input), len(body.input)):
        return None
    names, result = _Names(node), _copy(node)
    for at, axis in enumerate(axes, start=-count):
        if axis == 0 and not is_old:
            continue
        place = len(node.input) + at
        dims = known.dims.get(node.input[place])
        rank = _rank(body.input[at], is_old) if dims is None else len(dims)
        if rank is None or not -rank <= axis < rank:
            names.with_elements(result, place)
        elif not _positive(dims, [axis % rank]):
            names.with_elements(result, place, [2 * (each == axis % rank) for each in range(rank)])
    return [*names.made, result] if names.made else None


def _rank(step: onnx.ValueInfoProto, is_old: bool) -> int | None:
    """The rank of what a `Scan` takes, of which its body takes a `step`."""
    tensor = step.type.tensor_type
    return len(tensor.shape.dim) + 1 if tensor.HasField("shape") and not is_old else None


_CHANGES: Mapping[str, Change] = {
    "Attention": _attention,
    "Conv": _convolution,
    "Div": _division,
    "DynamicQuantizeLSTM": _recurrent,
    "FeatureVectorizer": _batch,
    "FusedConv": _convolution,
    "GRU": _recurrent,
    "LSTM": _recurrent,
    "Mod": _division,
    "QAttention": _batch,
    "QuantizeLinear": _quantized,
    "STFT": _spectrum,
    "Scan": _scan,
}
