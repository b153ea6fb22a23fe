"""Read an ONNX model as a graph, in the canonical form that the patterns of libraries match."""

import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import tvm
import tvm_ffi
from onnx import helper
from tvm import relax
from tvm.relax.frontend.onnx import onnx_frontend

from collage_dsl.frontend.arrays import Array, constant
from collage_dsl.frontend.dims import Symbols
from collage_dsl.frontend.errors import CannotConvertError, FrontendError, sentence
from collage_dsl.frontend.from_relax import from_relax
from collage_dsl.frontend.onnx_affine import Affine, Factor, Linear, Pending
from collage_dsl.frontend.onnx_check import array_of_tensor, problem_of
from collage_dsl.frontend.onnx_constants import (
    array_of_constant,
    attributes,
    can_fold,
    fold,
    label,
)
from collage_dsl.frontend.onnx_limits import is_known, limit, takes_shapes
from collage_dsl.frontend.onnx_model import (
    Shapes,
    give,
    input_types,
    live_nodes,
    load,
    opset_of,
)
from collage_dsl.frontend.onnx_operators import CANONICAL, Site, Value, known_dims, static_dims
from collage_dsl.frontend.onnx_short_floats import in_float32
from collage_dsl.frontend.types import relax_type
from collage_dsl.graph import Graph, TensorType


def from_onnx(model: str | Path | onnx.ModelProto, *, shapes: Shapes | None = None) -> Graph:
    """
    The graph of an ONNX model, for inference.

    A node has the name of the ONNX value that it computes. If an operator becomes several nodes,
    the last has that name, and the others have names derived from it. `shapes` gives shapes of
    inputs, in place of those in the model.
    """
    loaded = load(model)
    # Warnings about the import give advice on how to export models; the user here cannot use it.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _Importer(loaded, shapes or {}).run()


class _Importer:
    """Converts the nodes of a model in order, each value when it is first used."""

    def __init__(self, model: onnx.ModelProto, shapes: Shapes) -> None:
        self.graph = model.graph
        self.opset = opset_of(model)
        self.nodes = live_nodes(model.graph)
        self.makers = {name: node for node in self.nodes for name in node.output}
        self.outputs = [value.name for value in model.graph.output]
        self.dtypes = {each.name: each.type.tensor_type.elem_type for each in model.graph.output}
        self.uses = Counter(name for node in self.nodes for name in node.input)
        self.uses.update(self.outputs)
        self.types = input_types(model.graph, shapes)
        self.builder = relax.BlockBuilder()
        self.values: dict[str, Value] = {}
        self.names: dict[Any, str] = {}
        self.literals: dict[str, Any] = {}

    def run(self) -> Graph:
        for tensor in self.graph.initializer:
            if self.uses[tensor.name]:
                what = f"the constant `{tensor.name}`"
                self.values[tensor.name] = array_of_tensor(tensor, what)
        parameters = self.parameters()
        try:
            self.build(parameters)
        except BaseException:
            self.builder._end_block()  # TVM leaves it open, and would warn on stderr.
            raise
        return from_relax(self.module(), names=self.names, output_names=self.outputs)

    def build(self, parameters: list[Any]) -> None:
        with self.builder.function("main", parameters):
            with self.builder.dataflow():
                for node in self.nodes:
                    self.convert(node)
                results = [self.result_of(name) for name in self.outputs]
                returned = self.builder.emit_output(
                    results[0] if len(results) == 1 else relax.Tuple(results)
                )
            self.builder.emit_func_output(returned)

    def parameters(self) -> list[Any]:
        symbols: Symbols = {}
        for name, (dtype, shape) in self.types.items():
            var = relax.Var(name, relax_type(TensorType(dtype, shape), symbols))
            self.values[name] = var
            self.names[var] = name
        return [self.values[name] for name in self.types]

    # The values so far: these methods are the interface `Scope` that converters use.

    def value(self, name: str) -> Value:
        if name not in self.values:
            when = " before it is used" if name in self.makers else ""
            raise FrontendError(f"nothing in the model computes the value `{name}`{when}")
        return self.values[name]

    def constant(self, name: str) -> Array | None:
        value = self.value(name)
        return value if isinstance(value, np.ndarray) else None

    def pending(self, name: str) -> Pending | None:
        value = self.value(name)
        alone = self.uses[name] == 1
        return value if isinstance(value, Affine | Linear) and alone else None

    def expr(self, name: str) -> Any:
        value = self.value(name)
        if isinstance(value, np.ndarray):
            return self.literal(value, name)
        if isinstance(value, Affine | Linear):
            value = self.values[name] = self.bind(self.emit_pending(value, name), name)
        return value

    def dtype(self, name: str) -> str:
        """The type of the elements of the value `name`; empty if it is not a tensor."""
        value = self.value(name)
        if isinstance(value, np.ndarray):
            return str(value.dtype)
        if isinstance(value, Affine | Linear):
            return value.layout.dtype
        is_tensor = isinstance(value.ty, relax.TensorType) and value.ty.dtype is not None
        return str(value.ty.dtype.dtype) if is_tensor else ""

    def literal(self, array: Array, name: str = "") -> Any:
        """A Relax constant. With a `name` (that of an ONNX value, or derived) it is made once."""
        if name in self.literals:
            return self.literals[name]
        made = constant(array)
        if name:
            self.literals[name] = made
            self.names[made] = name
        return made

    def emit(self, expr: Any) -> Any:
        return self.builder.emit(expr)

    def bind(self, expr: Any, name: str) -> Any:
        """`expr` as the value `name`. It is emitted, unless it needs no operator."""
        if _is_call(expr):
            expr = self.builder.emit(expr)
        if isinstance(expr, tvm.ir.Var):
            self.names.setdefault(expr, name)
        return expr

    # Pending values.

    def emit_pending(self, value: Pending, name: str) -> Any:
        return (
            self.emit_linear(value, name)
            if isinstance(value, Linear)
            else self.emit_affine(value, name)
        )

    def emit_linear(self, value: Linear, name: str) -> Any:
        weight = value.weight
        result = value.call(self.literal(weight.values, weight.name or f"{name}.weight"))
        if value.bias is None:
            return result
        channels = np.broadcast_to(value.bias.values, (weight.values.shape[value.rows],))
        bias = self.literal(value.layout.spread(channels), f"{name}.bias")
        return relax.op.add(self.emit(result), bias)

    def emit_affine(self, value: Affine, name: str) -> Any:
        result, step = value.source, value.step
        if step.scale is not None:
            result = relax.op.multiply(result, self.factor(value, step.scale, f"{name}.scale"))
        if step.shift is not None:
            shift = self.factor(value, step.shift, f"{name}.shift")
            result = relax.op.add(result if step.scale is None else self.emit(result), shift)
        return result

    def factor(self, value: Affine, factor: Factor, name: str) -> Any:
        if factor.values.size == 1:
            return self.literal(factor.values.astype(value.layout.dtype).reshape(()), name)
        return self.literal(value.layout.spread(factor.values), name)

    # Nodes.

    def convert(self, node: onnx.NodeProto) -> None:
        with self.blaming(node):
            self.convert_node(node)

    @contextmanager
    def blaming(self, node: onnx.NodeProto) -> Iterator[None]:
        """Errors inside name `node` as their cause."""
        try:
            yield
        except FrontendError:
            raise
        except CannotConvertError as error:
            raise FrontendError(f"{_cannot(node)}: {error}{self.hint()}") from None
        except Exception as error:
            # Converters raise errors of many kinds: ValueError, InternalError, AttributeError.
            reason = f"operator {node.op_type}: {sentence(error)}{self.hint()}"
            raise FrontendError(f"{_cannot(node)}: {reason}") from error

    def hint(self) -> str:
        """Advice on how to give shapes, if the model leaves some open."""
        symbolic = [
            give(name, shape)
            for name, (_, shape) in self.types.items()
            if not all(isinstance(dim, int) for dim in shape)
        ]
        return f"; a static shape may help: {symbolic[0]}" if symbolic else ""

    def convert_node(self, node: onnx.NodeProto) -> None:
        if problem := problem_of(node, self.opset):
            raise CannotConvertError(problem)
        if node.op_type == "Constant":
            self.values[node.output[0]] = array_of_constant(node)
        elif node.op_type in ("Identity", "Dropout"):
            self.pass_on(node)
        elif (arrays := self.folded(node)) is not None:
            self.values.update(zip(filter(None, node.output), arrays, strict=True))
        elif (nodes := in_float32(node, self.dtype)) is not None:
            self.uses.update(name for each in nodes for name in each.input if name)
            for each in nodes:
                self.convert_node(each)
        else:
            self.convert_operator(node)

    def pass_on(self, node: onnx.NodeProto) -> None:
        """The output is the input with another name."""
        source, name = node.input[0], node.output[0]
        if any(self.uses[mask] for mask in node.output[1:]):
            raise CannotConvertError("the mask of a Dropout is used")
        pending = self.pending(source)
        self.values[name] = self.expr(source) if pending is None else pending

    def folded(self, node: onnx.NodeProto) -> list[Array] | None:
        """The outputs, if they are constant."""
        if node.op_type in ("Shape", "Size") and can_fold(node):
            shape = self.static_shape(node.input[0])
            return None if shape is None else [_size(node, shape)]
        if not can_fold(node):
            return None
        inputs = [self.constant(name) if name else None for name in node.input]
        missing = [name for name, x in zip(node.input, inputs, strict=True) if name and x is None]
        if missing or not any(node.input):
            return None
        return fold(node, inputs, self.opset)

    def static_shape(self, name: str) -> list[int] | None:
        array = self.constant(name)
        if array is not None:
            return list(array.shape)
        type_ = self.expr(name).ty
        if not isinstance(type_, relax.TensorType) or type_.ndim < 0:
            return None
        return known_dims(static_dims(type_))

    def convert_operator(self, node: onnx.NodeProto) -> None:
        if not is_known(node, _converters()):
            domain = f" of `{node.domain}`" if node.domain else ""
            raise FrontendError(
                f"{_cannot(node)}: operator {node.op_type}{domain} is not supported"
            )
        reason = limit(node, self.uses.keys(), self.constant, self.static_shape)
        if reason:
            raise CannotConvertError(reason)
        self.store(node, self.result(node))

    def result(self, node: onnx.NodeProto) -> Value:
        site = Site(self, node, attributes(node))
        canonical = CANONICAL.get(node.op_type)
        made = canonical(site) if canonical else None
        return self.as_tvm_does(node) if made is None else made

    def as_tvm_does(self, node: onnx.NodeProto) -> Value:
        inputs = onnx_frontend.onnx_input(self.expr(name) if name else None for name in node.input)
        if not takes_shapes(node.op_type):
            inputs = onnx_frontend.onnx_input(map(self.tensor, inputs))
        attrs = attributes(node)
        attrs["tvm_custom"] = {"name": node.name, "num_outputs": len(node.output)}
        converter = _converters()[node.op_type].get_converter(self.opset)
        made = converter(self.builder, inputs, attrs, [{}, {}])
        return self.builder.normalize(made) if _is_call(made) else made

    def tensor(self, expr: Any) -> Any:
        """A shape as a tensor, for operators that do not take shapes."""
        if expr is not None and isinstance(expr.ty, relax.ShapeType):
            return self.builder.emit(relax.op.shape_to_tensor(expr))
        return expr

    def store(self, node: onnx.NodeProto, made: Value) -> None:
        """Keep the values that a converter made, by the names of the node's outputs."""
        names = list(node.output)
        if isinstance(made, Linear):
            self.check(made)
        if isinstance(made, Affine | Linear | np.ndarray):
            self.values[names[0]] = made
            return
        if isinstance(made, tvm.ir.Tuple):
            fields = list(made.fields)
        elif isinstance(made.ty, relax.TupleType):
            source = self.bind(made, f"{label(node)}.{node.op_type.lower()}")
            fields = [relax.TupleGetItem(source, i) for i in range(len(made.ty.fields))]
        else:
            fields = [made]
        if len(fields) < len(names):
            raise CannotConvertError(f"only the first output of {node.op_type} is supported")
        for name, field in zip(names, fields, strict=False):
            if name and self.uses[name]:
                self.values[name] = self.bind(field, name)

    def check(self, pending: Linear) -> None:
        """Raise now the error that emitting `pending` would raise at a later node."""
        weight = pending.weight
        type_ = relax.TensorType(weight.values.shape, str(weight.values.dtype))
        self.builder.normalize(pending.call(relax.Var(weight.name or "weight", type_)))

    def result_of(self, name: str) -> Any:
        """The value of an output of the model; it may be emitted only here."""
        node = self.makers.get(name)
        if node is None:
            return self.output(name)
        with self.blaming(node):
            return self.output(name)

    def output(self, name: str) -> Any:
        """
        An output, of the declared type. Its node gets its name, even if the output only passes on
        another value. But the node of an input, or of another output, keeps its own name.
        """
        value = self.tensor(self.expr(name))
        declared = self.dtypes[name] and helper.tensor_dtype_to_np_dtype(self.dtypes[name]).name
        if declared and str(value.ty.dtype.dtype) != declared:
            value = self.builder.emit(relax.op.astype(value, declared))
        if isinstance(value, tvm.ir.Var) and self.names.get(value) not in (
            *self.outputs,
            *self.types,
        ):
            self.names[value] = name
        return value

    # Names for values that have none yet.

    def module(self) -> tvm.IRModule:
        """The finished module: unused values are removed, and every variable has its name."""
        module = self.builder.get()
        function = relax.analysis.remove_all_unused(module["main"])
        waiting: list[Any] = []
        for binding in function.body.blocks[0].bindings:
            name = self.names.get(binding.var)
            if name is None:
                waiting.append(binding)
                continue
            for auxiliary in waiting:
                self.names[auxiliary.var] = f"{name}.{_short(auxiliary.value)}"
            waiting.clear()
        module["main"] = _renamed(function, self.names)
        return module


def _renamed(function: Any, names: Mapping[Any, str]) -> Any:
    """`function` with new variables that have the names in `names`."""
    known = {hash(var): name for var, name in names.items()}
    made: dict[int, Any] = {}

    def renamed(var: Any) -> Any:
        key = hash(var)
        if key in known and key not in made:
            made[key] = type(var)(known[key], var.ty)
        return made.get(key, var)

    return tvm_ffi.structural_map(function, (tvm.ir.Var, renamed))


@cache
def _converters() -> Any:
    return onnx_frontend._get_convert_map()


def _cannot(node: onnx.NodeProto) -> str:
    return f"cannot import `{label(node)}`"


def _is_call(expr: Any) -> bool:
    return isinstance(expr, tvm.ir.Call | tvm.ir.TupleGetItem)


def _size(node: onnx.NodeProto, shape: list[int]) -> Array:
    if node.op_type == "Size":
        return np.asarray(prod(shape), np.int64)
    attrs = attributes(node)
    return np.asarray(shape[attrs.get("start", 0) : attrs.get("end")], np.int64)


def _short(value: Any) -> str:
    """`conv2d` for a call of `relax.nn.conv2d`."""
    op = getattr(value, "op", None)
    return str(op.name).rsplit(".", 1)[-1] if isinstance(op, tvm.ir.Op) else "item"
