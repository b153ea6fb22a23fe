"""Read an ONNX model as a graph, in the canonical form that the patterns of libraries match."""

import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from math import prod
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import tvm
from onnx import helper, numpy_helper
from tvm import relax
from tvm.relax.frontend.onnx import onnx_frontend

from collage_dsl.frontend.arrays import SharedConstants, constant
from collage_dsl.frontend.errors import (
    CannotConvertError,
    DefectError,
    FrontendError,
    UnknownSizeError,
    WrongNodeError,
    is_defect,
    sentence,
)
from collage_dsl.frontend.from_relax import from_relax
from collage_dsl.frontend.onnx_affine import Affine, Linear
from collage_dsl.frontend.onnx_check import (
    array_of_sparse,
    array_of_tensor,
    problem_of,
    unknown_operator,
)
from collage_dsl.frontend.onnx_constants import (
    array_of_constant,
    attributes,
    label,
)
from collage_dsl.frontend.onnx_data import Data
from collage_dsl.frontend.onnx_fold import can_fold, fold
from collage_dsl.frontend.onnx_functions import body_of, of_standard
from collage_dsl.frontend.onnx_fused import unfused
from collage_dsl.frontend.onnx_in_relax import onnx_call
from collage_dsl.frontend.onnx_kept_shapes import kept_shapes
from collage_dsl.frontend.onnx_limits import MICROSOFT, is_known, joins, limit, newer, takes_shapes
from collage_dsl.frontend.onnx_loops import count_of, steps_of
from collage_dsl.frontend.onnx_model import (
    Shapes,
    declared_dtypes,
    give,
    input_types,
    live_nodes,
    load_apart,
)
from collage_dsl.frontend.onnx_names import named
from collage_dsl.frontend.onnx_opaque import header_of, opaque, refusal
from collage_dsl.frontend.onnx_operators import CANONICAL
from collage_dsl.frontend.onnx_origins import origins
from collage_dsl.frontend.onnx_quantized import endless_scale
from collage_dsl.frontend.onnx_scope import names_read, rename
from collage_dsl.frontend.onnx_short_floats import in_float32
from collage_dsl.frontend.onnx_site import Site, Value, check_sizes
from collage_dsl.frontend.onnx_sized_operators import SIZED
from collage_dsl.frontend.onnx_sizes import Sizes, sizes_of
from collage_dsl.frontend.onnx_types import (
    dtype_of,
    is_dtype,
    is_foreign,
    sizes_in,
    type_text,
)
from collage_dsl.frontend.onnx_upgrade import OLDEST_OPSET, opset_of
from collage_dsl.frontend.onnx_values import DEQUANTIZE, Values, is_call, without_elements
from collage_dsl.frontend.onnx_windows import OPTIONAL_SCALES, without_empty
from collage_dsl.graph import Graph, OpaqueType, TensorType
from collage_dsl.graph.arrays import Array
from collage_dsl.graph.requirements import known_sizes, least_sizes, requirements_of


def from_onnx(
    model: str | Path | onnx.ModelProto,
    *,
    shapes: Shapes | None = None,
    shared: SharedConstants | None = None,
) -> Graph:
    """
    The graph of an ONNX model, for inference.

    A node has the name of the ONNX value that it computes. If an operator becomes several nodes,
    the last has that name, and the others have names derived from it. An operator that has no form
    in Relax is one node, of the kind opaque, that is named after it: `onnx.LSTM`. `shapes` gives
    shapes of inputs, in place of those in the model; a dimension with a name has any size. Graphs
    with the same `shared` constants have equal ones in the same memory. Raises `FrontendError`.
    """
    try:
        loaded, data = load_apart(model)
        # Warnings about the import advise how to export models; the user here cannot use that.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            graph = _imported(loaded, shapes or {}, shared or constant, data)
    except FrontendError as error:
        is_named = not isinstance(model, str | PathLike) or str(model) in str(error)
        raise error if is_named else type(error)(f"{model}: {error}") from error
    return graph


def _imported(
    model: onnx.ModelProto,
    shapes: Shapes,
    make_constant: Callable[[Array], Any],
    data: Data | None,
) -> Graph:
    """
    The graph, with those dimensions as numbers for which its operators leave one number. Where it
    is not known that a size is not negative, the sizes that its operators need may say so.
    """
    least: Mapping[str, int] = {}
    while True:
        importer = _Importer(model, shapes, make_constant, data, least)
        graph = importer.run()
        graph.onnx = origins(model, graph)
        requirements = requirements_of(graph)
        if importer.arithmetic.is_doubtful:
            needed = least_sizes(requirements)
            if needed != least and _includes(needed, least):
                least = needed
                continue
        known = known_sizes(requirements)
        types = input_types(model.graph, shapes)
        found = {
            name: tuple(known.get(dim, dim) if isinstance(dim, str) else dim for dim in type_.shape)
            for name, type_ in types.items()
            if isinstance(type_, TensorType) and type_.shape is not None
        }
        if all(types[name].shape == shape for name, shape in found.items()):
            return graph
        shapes = found


def _includes(needed: Mapping[str, int], least: Mapping[str, int]) -> bool:
    return all(needed.get(name, 1) >= size for name, size in least.items())


_PRODUCTS = frozenset({"Conv", "Gemm", "MatMul"})


class _Importer(Values):
    """Converts the nodes of a model in order, each value when it is first used."""

    def __init__(
        self,
        model: onnx.ModelProto,
        shapes: Shapes,
        make_constant: Callable[[Array], Any],
        data: Data | None,
        least: Mapping[str, int],
    ) -> None:
        super().__init__(opset_of(model), make_constant, least)
        self.graph = model.graph
        self.data = data
        self.taken: Counter[str] = Counter()
        """How often each value was taken so far."""
        self.header = header_of(model)
        self.nodes = live_nodes(model.graph)
        self.makers.update({name: node for node in self.nodes for name in node.output})
        self.of_model = frozenset(self.makers)
        self.outputs = [value.name for value in model.graph.output]
        self.dtypes = declared_dtypes(model.graph)
        self.uses.update(name for node in self.nodes for name in names_read(node))
        self.uses.update(self.outputs)
        self.types = input_types(model.graph, shapes)

    def run(self) -> Graph:
        self.read_constants(self.graph, self.data)
        parameters = [self.parameter(name, type_) for name, type_ in self.types.items()]
        try:
            self.build(parameters)
        except BaseException:
            self.builder._end_block()  # TVM leaves it open, and would warn on stderr.
            raise
        module = self.builder.get()
        module["main"] = named(module["main"], self.names)
        params = dict(zip(self.types, module["main"].params, strict=True))
        types = {
            params[n]: OpaqueType(type_text(t)) for n, t in self.objects.items() if n in params
        }
        return from_relax(module, names=self.names, output_names=self.outputs, types=types)

    def read_constants(self, graph: onnx.GraphProto, data: Data | None = None) -> None:
        for tensor in graph.initializer:
            if self.uses[name := tensor.name]:
                what = f"the constant `{name}`"
                self.values[name] = data.array(tensor) if data else array_of_tensor(tensor, what)
        for sparse in graph.sparse_initializer:
            if self.uses[name := sparse.values.name]:
                self.values[name] = array_of_sparse(sparse, f"the constant `{name}`")

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

    def convert(self, node: onnx.NodeProto) -> None:
        with self.blaming(node), self.own_factors(node):
            self.convert_node(node)
        self.release(node)

    @contextmanager
    def own_factors(self, node: onnx.NodeProto) -> Iterator[None]:
        """
        A product and a convolution dequantize their own factors, although others take them too: a
        kernel that has both inside computes with integers.
        """
        names = node.input[:2] if node.op_type in _PRODUCTS else ()
        shared = {name: self.values.get(name) for name in names if self.uses[name] > 1}
        calls = {name: self.dequantized(value) for name, value in shared.items()}
        own = {name: call for name, call in calls.items() if call is not None}
        self.values.update({name: self.emit(call) for name, call in own.items()})
        yield
        self.values.update({name: shared[name] for name in own})

    def dequantized(self, value: Any) -> Any | None:
        """A new call that makes a value from quantized numbers; None for other values."""
        call = self.builder.lookup_binding(value) if isinstance(value, tvm.ir.Var) else None
        if not isinstance(call, tvm.ir.Call) or call.op != DEQUANTIZE:
            return None
        return relax.Call(call.op, call.args, call.attrs, call.ty_args)

    def release(self, node: onnx.NodeProto) -> None:
        """Forget the constants that no later node takes, which may be large."""
        self.taken.update(names_read(node))
        for name in names_read(node):
            is_over = self.taken[name] >= self.uses[name]
            if is_over and isinstance(self.values.get(name), np.ndarray):
                del self.values[name]

    @contextmanager
    def blaming(self, node: onnx.NodeProto) -> Iterator[None]:
        """Errors inside name `node` as their cause."""
        try:
            yield
        except (DefectError, FrontendError):
            raise
        except CannotConvertError as error:
            said = str(error)
            reason = said if node.op_type in said else f"operator {node.op_type}: {said}"
            hint = self.hint() if isinstance(error, UnknownSizeError) else ""
            raise FrontendError(f"{_cannot(node)}: {reason}{hint}") from None
        except Exception as error:
            # Converters raise errors of many kinds: ValueError, InternalError, AttributeError.
            said = f"{_cannot(node)}: operator {node.op_type}: "
            if is_defect(error):
                raise DefectError(f"{said}{type(error).__name__}: {error}") from error
            raise FrontendError(f"{said}{sentence(error)}") from error

    def hint(self) -> str:
        """Advice on how to give shapes, if the model leaves some open."""
        symbolic = [
            give(name, type_.shape or ())
            for name, type_ in self.types.items()
            if isinstance(type_, TensorType) and not type_.is_static
        ]
        return f"; a static shape may help: {symbolic[0]}" if symbolic else ""

    def convert_node(self, node: onnx.NodeProto) -> None:
        node = of_standard(node, self.opset)
        if problem := problem_of(node, self.opset):
            raise WrongNodeError(problem)
        for name in names_read(node):
            self.value(name)
        if name := endless_scale(node, self.constant):
            raise WrongNodeError(
                f"the scale `{name}` has an element that is infinite or not a number"
            )
        if (parts := unfused(node, self, self.fresh(node))) is not None:
            self.convert_parts(parts)
        elif node.domain not in ("", "ai.onnx"):
            self.convert_operator(node)
        elif node.op_type == "Constant":
            self.values[node.output[0]] = array_of_constant(node)
        elif self.is_passed_on(node):
            self.pass_on(node)
        elif node.op_type == "If" and self.constant(node.input[0]) is not None:
            self.inline(node)
        elif node.op_type == "Loop" and (count := self.count(node)):
            self.unroll(node, count)
        elif (arrays := self.folded(node)) is not None:
            self.values.update(arrays)
        elif (sizes := self.sizes_of(node)) is not None:
            self.values[node.output[0]] = sizes
        elif (wide := in_float32(node, self.dtype, self.constant, self.fresh(node))) is not None:
            self.convert_parts(wide)
        else:
            self.convert_operator(node)

    def convert_parts(self, nodes: Sequence[onnx.NodeProto]) -> None:
        """Convert nodes that together stand for one of the model."""
        names = [name for each in nodes for name in each.input if name]
        self.uses.update(names)
        for each in nodes:
            self.convert_node(each)
        self.taken.update(names)

    def is_passed_on(self, node: onnx.NodeProto) -> bool:
        """Whether the output is the input with another name."""
        if node.op_type != "Dropout":
            return node.op_type == "Identity"
        is_masked = any(self.uses[name] for name in node.output[1:])
        return not is_masked and not self.may_train(node)

    def may_train(self, node: onnx.NodeProto) -> bool:
        """Whether a Dropout may drop something: its third input is true, or is computed."""
        if len(node.input) < 3 or not node.input[2]:
            return False
        mode = self.constant(node.input[2])
        return mode is None or bool(mode.any())

    def pass_on(self, node: onnx.NodeProto) -> None:
        source, name = node.input[0], node.output[0]
        if self.sizes(source) is not None or self.constant(source) is not None:
            self.values[name] = self.value(source)
            return
        if source in self.objects:
            self.objects[name] = self.objects[source]
        pending = self.pending(source)
        self.values[name] = self.expr(source) if pending is None else pending

    def inline(self, node: onnx.NodeProto) -> None:
        """Convert the nodes of the branch that an If with a constant condition takes."""
        condition = self.constant(node.input[0])
        assert condition is not None
        branch = onnx.GraphProto()
        branch.CopyFrom(attributes(node)["then_branch" if condition.all() else "else_branch"])
        rename(branch, {}, self.fresh(node))
        self.convert_graph(branch, node.output)

    def count(self, node: onnx.NodeProto) -> int | None:
        """How often a Loop runs its body, if it is to be replaced by what it repeats."""
        return count_of(node, self.constant) if self.opset >= OLDEST_OPSET else None

    def unroll(self, node: onnx.NodeProto, count: int) -> None:
        """Convert the nodes that a Loop repeats, once for each of `count` iterations."""
        taken = {*self.makers, *self.values}
        for graph, outputs, constants in steps_of(node, count, self.opset, taken):
            self.values.update(constants)
            self.convert_graph(graph, outputs)

    def fresh(self, node: onnx.NodeProto) -> Callable[[str], str]:
        """Names for the values inside a node, which nothing in the model has."""

        def name_of(name: str) -> str:
            while name in self.makers or name in self.values:
                name = f"{label(node)}.{name}"
            return name

        return name_of

    def convert_graph(self, graph: onnx.GraphProto, outputs: Sequence[str]) -> None:
        """Convert the nodes of a graph inside the model, whose results are the values `outputs`."""
        results = [value.name for value in graph.output]
        passed = [(x, y) for x, y in zip(results, outputs, strict=False) if y]
        nodes = [*live_nodes(graph), *(helper.make_node("Identity", [x], [y]) for x, y in passed)]
        self.makers |= {name: each for each in nodes for name in each.output}
        self.uses.update(name for each in nodes for name in names_read(each))
        self.read_constants(graph)
        for each in nodes:
            self.convert(each)

    def folded(self, node: onnx.NodeProto) -> dict[str, Array] | None:
        """The outputs by name, if they are constant."""
        if node.op_type in ("Shape", "Size") and can_fold(node):
            shape = self.static_shape(node.input[0])
            return None if shape is None else {node.output[0]: _size(node, shape)}
        if not can_fold(node):
            return None
        inputs = [self.constant(name) if name else None for name in node.input]
        missing = [name for name, x in zip(node.input, inputs, strict=True) if name and x is None]
        if missing or not any(node.input):
            return None
        return fold(node, inputs, self.opset)

    def sizes_of(self, node: onnx.NodeProto) -> Sizes | Array | None:
        """The output of a node, if it follows from dimensions of inputs."""
        if node.op_type in ("Shape", "Size") and can_fold(node):
            dims = self.dims(node.input[0])
            if dims is None:
                return None
            if node.op_type == "Size":
                return Sizes(np.array(prod(dims[1:], start=dims[0]), object))
            attrs = attributes(node)
            return sizes_of(dims[attrs.get("start", 0) : attrs.get("end")])
        given = list(filter(None, node.input))
        if not any(self.sizes(name) is not None for name in given):
            return None
        inputs = [
            self.sizes(name) if (array := self.constant(name)) is None else array for name in given
        ]
        return self.arithmetic.computed(node, inputs)

    def convert_operator(self, node: onnx.NodeProto) -> None:
        """Write the node with operators of Relax; if there are none for it, as it is."""
        given = without_empty(node, self.constant)
        if self.opset >= OPTIONAL_SCALES:
            node = given
        reason, kind = self.obstacle(node), CannotConvertError
        if not reason:
            try:
                made = self.result(given)
                fields = self.fields(node, made)
            except (FrontendError, WrongNodeError):
                raise
            except CannotConvertError as error:
                reason, kind = str(error), type(error)
            except Exception as error:
                # Converters raise errors of many kinds: ValueError, InternalError, AttributeError.
                if is_defect(error):
                    raise
                self.keep(node, f"operator {node.op_type}: {sentence(error)}", is_doubtful=True)
                return
            else:
                self.store(node, fields)
                return
        self.keep(node, reason, kind)

    def obstacle(self, node: onnx.NodeProto) -> str:
        """Why no converter is tried for the node; empty if one is."""
        if self.opset < OLDEST_OPSET:
            return f"operators of set {self.opset} have no forms in Relax"
        if not is_known(node, _known()):
            domain = f" of `{node.domain}`" if node.domain else ""
            return f"operator {node.op_type}{domain} is not supported"
        for name in filter(None, node.input):
            if not self.is_tensor(name):
                return f"the shape of `{name}` is found as the model runs"
            if joins(node.op_type) and self.is_empty(name):
                return f"`{name}` has no elements"
            if node.op_type == "ReduceMean" and self.may_be_empty(name):
                return f"`{name}` may have no elements, of which TVM's mean is not a number"
        if self.quantizes_finely(node):
            return "TVM divides in the dtype of the operand, which is too short for 16 bits"
        return limit(node, self.uses.keys(), self.constant, self.static_shape)

    def quantizes_finely(self, node: onnx.NodeProto) -> bool:
        """Whether a node quantizes short floats to 16 bits."""
        if node.op_type != "QuantizeLinear" or len(node.input) < 3 or not node.input[2]:
            return False
        return self.dtype(node.input[0]) != "float32" and "16" in self.dtype(node.input[2])

    def keep(
        self,
        node: onnx.NodeProto,
        reason: str,
        kind: type[CannotConvertError] = CannotConvertError,
        *,
        is_doubtful: bool = False,
    ) -> None:
        """
        Write the node as it is, since for that `reason`, of that `kind`, Relax has no form for it.
        If that `is_doubtful`, the shapes of its operands may not fit.
        """
        try:
            found = opaque(node, self.header, self.uses.keys(), self.onnx_type, self.constant)
        except CannotConvertError as error:
            if missing := unknown_operator(node, self.opset):
                raise FrontendError(f"{_cannot(node)}: {missing}") from None
            said = reason if is_doubtful else f"{reason}; {error}"
            raise kind(said) from None
        if is_doubtful and refusal(found, self.constant):
            raise kind(reason)
        fresh = self.fresh(node)
        # What fails in the types of TVM's converter may not in those of the standard.
        is_long = any(self.dtype(name) == "float64" for name in filter(None, node.input))
        if is_known(node, _known()) and not is_long:
            body = None
        else:
            known = _PLAIN | _known()
            body = body_of(found, known, lambda name: fresh(f"{label(node)}.{name}"))
        if body is not None:
            self.convert_graph(body, found.results)
            return
        operands = [self.tensor(self.expr(name)) for name in found.operands]
        tensors = [name for name in found.operands if name not in self.objects]
        formulas = {size for name in tensors for size in sizes_in(self.onnx_type(name))}
        types = [self.relax_type(each, formulas) for each in found.types]
        types = self.with_formulas(node, found.results, types)
        type_ = types[0] if len(types) == 1 else relax.TupleType(types)
        made = self.builder.emit(onnx_call(found.node, operands, type_))
        self.names[made] = (
            found.results[0] if len(types) == 1 else f"{label(node)}.{node.op_type.lower()}"
        )
        for place, (name, each) in enumerate(zip(found.results, found.types, strict=True)):
            self.values[name] = made
            if len(types) > 1:
                self.values[name] = self.bind(relax.TupleGetItem(made, place), name)
            self.kept[hash(self.values[name])] = self.values[name]
            if not dtype_of(each):
                self.objects[name] = each

    def with_formulas(
        self, node: onnx.NodeProto, results: Sequence[str], types: Sequence[Any]
    ) -> list[Any]:
        """`types` of the results of a kept node, with the shapes that inference does not find."""
        if all(map(self.follows, types)):
            return list(types)
        shapes = kept_shapes(Site(self, node, attributes(node)))
        known = dict(zip(node.output, shapes, strict=False))
        return [
            relax.TensorType(relax.ShapeExpr(known[name]), type_.dtype)
            if name in known and isinstance(type_, relax.TensorType) and not self.follows(type_)
            else type_
            for name, type_ in zip(results, types, strict=True)
        ]

    def result(self, node: onnx.NodeProto) -> Value:
        site = Site(self, node, attributes(node))
        canonical = CANONICAL.get(node.op_type) or SIZED.get(node.op_type)
        made = canonical(site) if canonical else None
        made = self.as_tvm_does(node) if made is None else made
        is_new = is_call(made) or isinstance(made, tvm.ir.Tuple)
        return self.builder.normalize(made) if is_new else made

    def as_tvm_does(self, node: onnx.NodeProto) -> Value:
        inputs = onnx_frontend.onnx_input(self.expr(name) if name else None for name in node.input)
        if not takes_shapes(node.op_type):
            inputs = onnx_frontend.onnx_input(map(self.tensor, inputs))
        attrs = attributes(node)
        attrs["tvm_custom"] = {"name": node.name, "num_outputs": len(node.output)}
        # Where onnxruntime's own domain has operators of the standard, they are those of set 21.
        opset = 21 if node.domain == MICROSOFT else max(self.opset, newer(node.op_type))
        converter = _converters()[node.op_type].get_converter(opset)
        return converter(self.builder, inputs, attrs, [{}, {}])

    def fields(self, node: onnx.NodeProto, made: Value) -> list[Value]:
        """
        The values of the node's outputs from what a converter made. Raises `CannotConvertError` if
        it made too few, or what a graph cannot have, and ValueError if a dimension is below 0.
        """
        if isinstance(made, Linear):
            self.check(made)
        if isinstance(made, Affine | Linear | np.ndarray):
            fields = [made]
        elif not hasattr(made, "ty") or not self.is_plain(made):  # TVM's empty optional has none
            raise CannotConvertError(f"operator {node.op_type} is not written with operators only")
        elif isinstance(made, tvm.ir.Tuple):
            fields = list(made.fields)
        elif isinstance(made.ty, relax.TupleType):
            source = self.bind(made, f"{label(node)}.{node.op_type.lower()}")
            fields = [relax.TupleGetItem(source, i) for i in range(len(made.ty.fields))]
        else:
            fields = [made]
        if any(self.uses[name] for name in node.output[len(fields) :]):
            raise CannotConvertError(f"only the first output of {node.op_type} is supported")
        for name, field in zip(node.output, fields, strict=False):
            check_sizes(name, field)
        return fields

    def store(self, node: onnx.NodeProto, fields: list[Value]) -> None:
        """Keep the values that a converter made, by the names of the node's outputs."""
        for name, field in zip(node.output, fields, strict=False):
            if isinstance(field, Affine | Linear | np.ndarray):
                self.values[name] = field
            elif (nothing := without_elements(field)) is not None:
                self.values[name] = nothing
            elif name and self.uses[name]:
                self.values[name] = self.bind(field, name)

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
        array = self.constant(name)
        if array is not None and is_foreign(array):
            tensor = numpy_helper.from_array(array)
            self.keep(helper.make_node("Constant", [], [name], value=tensor), "")
        value = self.tensor(self.expr(name))
        declared = None if name in self.objects else self.dtypes.get(name)
        if declared and (dtype := str(value.ty.dtype.dtype)) != declared:
            if not is_dtype(declared):
                raise FrontendError(f"the output `{name}` is declared as {declared} and is {dtype}")
            value = self.builder.emit(relax.op.astype(value, declared))
        if isinstance(value, tvm.ir.Var) and self.names.get(value) not in (
            *self.outputs,
            *self.types,
        ):
            self.names[value] = name
        return value


_PLAIN = frozenset(("Constant", "Identity"))
"""Operators that need no converter."""


@cache
def _converters() -> Any:
    found = onnx_frontend._get_convert_map()
    return {**found, "SimplifiedLayerNormalization": found["RMSNormalization"]}


@cache
def _known() -> frozenset[str]:
    """The operators that TVM or we have a converter for."""
    return frozenset(_converters()) | CANONICAL.keys()


def _cannot(node: onnx.NodeProto) -> str:
    return f"cannot import `{label(node)}`"


def _size(node: onnx.NodeProto, shape: list[int]) -> Array:
    if node.op_type == "Size":
        return np.asarray(prod(shape), np.int64)
    attrs = attributes(node)
    return np.asarray(shape[attrs.get("start", 0) : attrs.get("end")], np.int64)
