"""Random models of all operators: nodes that onnxruntime runs, glued to each other."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, TypeProto, helper, numpy_helper

from collage_dsl.frontend.errors import FrontendError
from collage_dsl.frontend.reference import REFUSALS, reference_session
from collage_dsl.realization.objects import run_session
from tests.fuzz.nodes import (
    NodeCase,
    cases,
    changed,
    converted,
    filled,
    is_numbers,
    of_opset,
)

Array = np.ndarray[Any, Any]
Key = tuple[str, str]

LARGEST = 4096
"""The most elements of a value."""

RANDOM = frozenset({"Bernoulli", "Dropout", "Multinomial"} | {
    f"Random{kind}{like}" for kind in ("Normal", "Uniform") for like in ("", "Like")
})  # fmt: skip
"""Operators whose results are random: only their types and ranks are compared."""


class RefusedError(Exception):
    """onnxruntime does not take a node, or a model."""


@dataclass(slots=True)
class Made:
    """
    A model, arrays for its inputs, and which of these have a meaning: indices, shapes, axes, and
    whatever an operator does not take any numbers for.
    """

    model: ModelProto
    inputs: dict[str, Any]
    kept: frozenset[str]
    sizes: Mapping[str, int] = field(default_factory=dict)
    """The sizes of the dimensions with names."""

    @property
    def operators(self) -> set[Key]:
        return {(_domain(node), node.op_type) for node in all_nodes(self.model)}

    @property
    def is_random(self) -> bool:
        return any(name in RANDOM for _, name in self.operators)


def _domain(node: NodeProto) -> str:
    return "" if node.domain == "ai.onnx" else node.domain


def all_nodes(model: ModelProto) -> Iterator[NodeProto]:
    return nodes_within((*model.graph.node, *(n for each in model.functions for n in each.node)))


def nodes_within(nodes: Iterable[NodeProto]) -> Iterator[NodeProto]:
    """The nodes, and those of the graphs in their attributes."""
    pending = list(nodes)
    while pending:
        node = pending.pop()
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                pending += attribute.g.node


def made(seed: int) -> Made:
    """A model that onnxruntime loads and runs."""
    chosen = Random(seed)
    builder = _Builder(chosen, chosen.choice((*OPSETS, *OPSETS[-8:])))
    wanted = chosen.choice((1, 1, 2, 3, 3, 4, 5, 6, 8))
    keys = list(cases())
    for _ in range(6 * wanted):
        if builder.count == wanted:
            break
        known = cases()[chosen.choice(keys)]
        case = of_opset(chosen.choice(known), builder.opset)
        if case is not None:
            builder.grow(case)
    return builder.finished()


OPSETS = tuple(range(7, 27))
"""The operator sets of models."""


class _Builder:
    """A graph, and an array for each of its values."""

    def __init__(self, chosen: Random, opset: int) -> None:
        self.chosen = chosen
        self.opset = opset
        self.count = 0
        self.numbers = 0
        self.nodes: list[NodeProto] = []
        self.inputs: dict[str, Any] = {}
        self.constants: dict[str, Array] = {}
        self.values: dict[str, Any] = {}
        self.kept: set[str] = set()
        self.used: set[str] = set()

    def grow(self, case: NodeCase) -> None:
        """Add a node like that of `case`; none if onnxruntime does not take it."""
        for tries in range(4):
            changes = self.chosen.choice((0, 1, 1, 2)) if tries < 3 else 0
            tried = case
            for _ in range(changes):
                tried = changed(tried, self.chosen)
            step = _Step(self, tried)
            try:
                step.run()
            except RefusedError:
                continue
            step.keep()
            self.count += 1
            return

    def name(self, letter: str) -> str:
        self.numbers += 1
        return f"{letter}{self.numbers}"

    # The whole.

    def finished(self) -> Made:
        chosen = self.chosen
        if not self.nodes:
            raise RefusedError("onnxruntime takes none of the nodes")
        ends = [n for node in self.nodes for n in node.output if n and n not in self.used]
        if len(ends) > 1 and chosen.random() < 0.1:
            ends.remove(chosen.choice(ends))
        more = [n for n in self.values if n not in ends and chosen.random() < 0.08]
        outputs = chosen.sample([*ends, *more], len(ends) + len(more))
        nodes = self.nodes
        if not any(node.op_type in RANDOM for node in nodes):
            nodes = [self.inside_if(n) if chosen.random() < 0.04 else n for n in nodes]
        constants = [_tensor(array, name) for name, array in self.constants.items()]
        sizes: dict[str, int] = {}
        declared = [self.declared(name, sizes) for name in self.inputs]
        if chosen.random() < 0.15:  # Older models declare their constants as inputs.
            declared += [
                value_of(name, self.constants[name])
                for name in self.constants
                if chosen.random() < 0.5
            ]
        results = [self.result(name) for name in outputs]
        model = _model(nodes, declared, results, constants, self.opset)
        if chosen.random() < 0.1:
            _with_function(model, chosen)
        found = Made(model, self.inputs, frozenset(self.kept), sizes)
        run(found.model, self.inputs)
        return found

    def declared(self, name: str, sizes: dict[str, int]) -> onnx.ValueInfoProto:
        """An input; some dimensions have names in place of sizes, or are not known."""
        value = value_of(name, self.inputs[name])
        array = self.inputs[name]
        if not isinstance(array, np.ndarray) or self.chosen.random() < 0.7:
            return value
        dims: list[int | str | None] = list(array.shape)
        for place, size in enumerate(array.shape):
            if not size:
                continue  # A dimension that is not fixed is at least 1.
            match self.chosen.randrange(4):
                case 0 | 1:
                    dims[place] = f"n{size}"
                    sizes[f"n{size}"] = size
                case 2 if self.chosen.random() < 0.3:
                    dims[place] = None
        element = value.type.tensor_type.elem_type
        return helper.make_tensor_value_info(name, element, dims)

    def result(self, name: str) -> onnx.ValueInfoProto:
        value = value_of(name, self.values[name])
        if isinstance(self.values[name], np.ndarray) and self.chosen.random() < 0.7:
            rank = self.values[name].ndim
            element = value.type.tensor_type.elem_type
            return helper.make_tensor_value_info(name, element, [None] * rank)
        return onnx.ValueInfoProto(name=name)

    def inside_if(self, node: NodeProto) -> NodeProto:
        """An `If` of which both branches are `node`."""
        if any(a.HasField("g") for a in node.attribute):
            return node
        branches = {}
        for which in ("then_branch", "else_branch"):
            inner = NodeProto()
            inner.CopyFrom(node)
            inner.output[:] = [name and f"{which[:4]}.{name}" for name in node.output]
            results = [onnx.ValueInfoProto(name=name) for name in inner.output if name]
            for value in results:
                array = self.values[value.name[5:]]
                value.CopyFrom(value_of(value.name, array))
                value.type.tensor_type.ClearField("shape")
            branches[which] = helper.make_graph([inner], which, [], results)
        condition = self.name("c")
        answer = np.array(self.chosen.random() < 0.5)
        self.values[condition] = answer
        (self.inputs if self.chosen.random() < 0.5 else self.constants)[condition] = answer
        return helper.make_node("If", [condition], [n for n in node.output if n], **branches)


class _Step:
    """One node, and those that make its operands from earlier values."""

    def __init__(self, builder: _Builder, case: NodeCase) -> None:
        self.builder = builder
        self.case = case
        self.chosen = builder.chosen
        self.nodes: list[NodeProto] = []
        self.inputs: dict[str, Any] = {}
        self.constants: dict[str, Array] = {}
        self.kept: set[str] = set()
        self.values: dict[str, Any] = {}
        operands = list(case.operands)
        while operands and operands[-1] is None:
            operands.pop()
        names = [self.operand(place, each) for place, each in enumerate(operands)]
        outputs = [builder.name("y") for _ in case.node.output]
        outputs = [n if o else "" for n, o in zip(outputs, case.node.output, strict=True)]
        for place in range(1, len(outputs)):
            if self.may_leave_out(place) and self.chosen.random() < 0.2:
                outputs[place] = ""
        node = NodeProto()
        node.CopyFrom(case.node)
        node.name = ""
        node.input[:] = names
        node.output[:] = outputs
        self.nodes.append(node)

    def may_leave_out(self, place: int) -> bool:
        schema = self.case.schema
        return bool(
            schema
            and place < len(schema.outputs)
            and schema.outputs[place].option.name == "Optional"
        )

    def operand(self, place: int, value: Any) -> str:
        if value is None and not self.is_empty_optional(place):
            return ""
        any_numbers = is_numbers(value) and takes_any(self.case, place)
        if any_numbers and self.chosen.random() < 0.6:
            earlier = [n for n, v in self.builder.values.items() if is_numbers(v) and v.size]
            if earlier:
                return self.adapted(self.chosen.choice(earlier[-8:]), value)
        name = self.builder.name("x")
        is_constant = self.chosen.random() < (0.4 if any_numbers else 0.7)
        if is_constant and isinstance(value, np.ndarray):
            self.constants[name] = value
        else:
            self.inputs[name] = value
            if not any_numbers:
                self.kept.add(name)
        self.values[name] = value
        return name

    def is_empty_optional(self, place: int) -> bool:
        return self.case.node.op_type.startswith("Optional") and place == 0

    def adapted(self, name: str, wanted: Array) -> str:
        """An earlier value, with the type and the shape of `wanted`."""
        source = self.builder.values[name]
        shape, dtype = source.shape, source.dtype
        if dtype != wanted.dtype:
            # An integer of a large float has no definition.
            if dtype.kind not in "biu" and wanted.dtype.kind in "iu":
                low, high = (0.0, 100.0) if wanted.dtype.kind == "u" else (-100.0, 100.0)
                name = self.node("Max", name, self.constant(np.array(low, dtype)))
                name = self.node("Min", name, self.constant(np.array(high, dtype)))
            name = self.node("Cast", name, to=helper.np_dtype_to_tensor_dtype(wanted.dtype))
        if shape == wanted.shape:
            return name
        count = int(np.prod(wanted.shape))
        if source.size != count:
            name = self.node("Reshape", name, self.constant(np.array([-1])))
            if source.size < count:
                repeats = np.array([-(-count // source.size)])
                name = self.node("Tile", name, self.constant(repeats))
            name = self.first(name, count)
        return self.node("Reshape", name, self.constant(np.array(wanted.shape, np.int64)))

    def first(self, name: str, count: int) -> str:
        if self.builder.opset < 10:
            return self.node("Slice", name, starts=[0], ends=[count])
        ends = self.constant(np.array([0])), self.constant(np.array([count]))
        return self.node("Slice", name, *ends)

    def node(self, op: str, *operands: str, **attrs: Any) -> str:
        result = self.builder.name("v")
        self.nodes.append(helper.make_node(op, operands, [result], **attrs))
        return result

    def constant(self, array: Array) -> str:
        name = self.builder.name("k")
        self.constants[name] = self.values[name] = array
        return name

    def run(self) -> None:
        """Compute the new values. Raises `RefusedError`."""
        read = {name for node in self.nodes for name in node.input if name}
        read |= {
            name
            for node in self.nodes
            for attribute in node.attribute
            for each in attribute.g.node
            for name in each.input
        }
        known = {**self.builder.values, **self.values}
        feeds = {n: known[n] for n in known if n in read and n not in self.constants}
        results = [name for node in self.nodes for name in node.output if name]
        model = _model(
            self.nodes,
            [value_of(name, value) for name, value in feeds.items()],
            [onnx.ValueInfoProto(name=name) for name in results],
            [_tensor(array, name) for name, array in self.constants.items()],
            self.builder.opset,
        )
        found = run(model, feeds)
        for value in found.values():
            if value is None and "Optional" not in self.case.node.op_type:
                raise RefusedError("onnxruntime gives nothing")
            if isinstance(value, np.ndarray) and value.size > LARGEST:
                raise RefusedError("too large")
            for each in value if isinstance(value, list) else [value]:
                if each is not None and not isinstance(each, np.ndarray):
                    raise RefusedError("a map")
        self.check(model, found)
        self.values |= found

    def arrays(self) -> Iterator[Array]:
        """What the node takes."""
        known = {**self.builder.values, **self.values}
        for name in self.nodes[-1].input:
            if isinstance(known.get(name), np.ndarray):
                yield known[name]

    def check(self, model: ModelProto, found: Mapping[str, Any]) -> None:
        """
        Refuse shapes that the standard does not have: onnxruntime runs some nodes whose operands do
        not fit, and windows that are larger than what they slide over.
        """
        for name, value in found.items():
            is_empty = isinstance(value, np.ndarray) and 0 in value.shape
            is_slid = name in self.nodes[-1].output and self.case.node.op_type in _SLIDING
            if is_empty and is_slid and not any(0 in each.shape for each in self.arrays()):
                raise RefusedError("no window fits")
        try:
            inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
        except onnx.shape_inference.InferenceError as error:
            raise RefusedError(str(error)) from None
        for each in inferred.graph.output:
            value = found[each.name]
            if not isinstance(value, np.ndarray) or self.case.node.op_type == "STFT":
                continue
            tensor = each.type.tensor_type
            if tensor.HasField("shape") and len(tensor.shape.dim) != value.ndim:
                raise RefusedError("another rank than ONNX says")
            for dim, size in zip(tensor.shape.dim, value.shape, strict=False):
                if dim.HasField("dim_value") and dim.dim_value != size:
                    raise RefusedError("another shape than ONNX says")

    def keep(self) -> None:
        builder = self.builder
        builder.nodes += self.nodes
        builder.inputs |= self.inputs
        builder.constants |= self.constants
        builder.values |= self.values
        builder.kept |= self.kept
        builder.used |= {name for node in self.nodes for name in node.input}


_SLIDING = frozenset({
    "AveragePool", "Conv", "ConvInteger", "ConvTranspose", "DeformConv", "LpPool", "MaxPool",
    "FusedConv", "MaxpoolWithMask", "NhwcMaxPool", "QLinearAveragePool", "QLinearConv",
})  # fmt: skip

NOT_ANY = frozenset({
    ("OneHot", 1), ("Range", 0), ("Range", 1), ("Range", 2), ("Resize", 1), ("Resize", 2),
    ("Upsample", 1), ("NonMaxSuppression", 0), ("NonMaxSuppression", 1), ("NonMaxSuppression", 3),
    ("NonMaxSuppression", 4), ("RoiAlign", 1), ("MaxRoiPool", 1), ("Dropout", 1), ("Dropout", 2),
    ("BatchNormalization", 4), ("QuantizeLinear", 1), ("DequantizeLinear", 1), ("DFT", 1),
    ("STFT", 1), ("MelWeightMatrix", 0), ("MelWeightMatrix", 3), ("MelWeightMatrix", 4),
    ("QLinearConv", 1), ("QLinearConv", 4), ("QLinearConv", 6), ("QLinearMatMul", 1),
    ("QLinearMatMul", 4), ("QLinearMatMul", 6), ("Bernoulli", 0), ("Multinomial", 0),
    ("Div", 1), ("Mod", 1), ("BitShift", 1), ("Pow", 1), ("CumSum", 1), ("CumProd", 1),
    ("Loop", 0), ("Loop", 1), ("If", 0),
})  # fmt: skip
"""Operands that may have a floating point type, or any integer type, but not any value."""


def takes_any(case: NodeCase, place: int) -> bool:
    """Whether an operator takes all numbers for this operand: it is no index, axis or shape."""
    array, (domain, op) = case.operands[place], case.key
    if domain not in ("", "ai.onnx.ml"):
        return bool(array.dtype == np.float32 and array.ndim)
    if (op, place) in NOT_ANY and not (op in ("Div", "Mod", "Pow") and array.dtype.kind == "f"):
        return False
    parameter = case.parameters()[place]
    if parameter is None:
        return False
    return array.dtype == bool or bool(
        parameter.types & {"tensor(float)", "tensor(float16)", "tensor(int8)", "tensor(uint8)"}
    )


# ---- Models ----


def value_of(name: str, value: Any) -> onnx.ValueInfoProto:
    """The declaration of a value of known shape."""
    return onnx.ValueInfoProto(name=name, type=_type_of(value))


def _type_of(value: Any) -> TypeProto:
    if value is None:
        tensor = helper.make_tensor_type_proto(TensorProto.FLOAT, None)
        return helper.make_optional_type_proto(tensor)
    if isinstance(value, list):
        element = _element(np.asarray(value[0])) if value else TensorProto.FLOAT
        return helper.make_sequence_type_proto(helper.make_tensor_type_proto(element, None))
    return helper.make_tensor_type_proto(_element(value), value.shape)


def _element(array: Array) -> int:
    if array.dtype.kind in "OUS":
        return TensorProto.STRING
    return helper.np_dtype_to_tensor_dtype(array.dtype)


def _tensor(array: Array, name: str) -> onnx.TensorProto:
    return numpy_helper.from_array(array.astype(object) if array.dtype.kind == "U" else array, name)


def _model(
    nodes: Sequence[NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    constants: Sequence[onnx.TensorProto],
    opset: int,
) -> ModelProto:
    graph = helper.make_graph(nodes, "random", inputs, outputs, constants)
    versions = {"": opset}
    for node in nodes_within(nodes):
        match node.domain:
            case "ai.onnx.ml":
                versions[node.domain] = 3 if opset < 20 else 5
            case domain if domain and domain != "ai.onnx":
                versions[domain] = 1
    opsets = [helper.make_opsetid(*each) for each in versions.items()]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def _with_function(model: ModelProto, chosen: Random) -> None:
    """Call one of the nodes as a function of the model."""
    node = chosen.choice(model.graph.node)
    if any(a.HasField("g") for a in node.attribute) or not all((*node.input, *node.output)):
        return
    inputs = [f"a{place}" for place in range(len(node.input))]
    outputs = [f"b{place}" for place in range(len(node.output))]
    body = NodeProto()
    body.CopyFrom(node)
    body.input[:], body.output[:] = inputs, outputs
    model.functions.append(
        helper.make_function("here", "called", inputs, outputs, [body], model.opset_import)
    )
    node.op_type, node.domain = "called", "here"
    del node.attribute[:]
    model.opset_import.append(helper.make_opsetid("here", 1))


def run(model: ModelProto, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The outputs of a model by onnxruntime without optimisations. Raises `RefusedError`."""
    try:
        return run_session(reference_session(model), inputs)
    except (FrontendError, *REFUSALS) as error:
        raise RefusedError(str(error)) from None


# ---- Inputs ----


def draws(made: Made, seed: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Inputs of several kinds; first those that the model was made with."""
    yield "first", made.inputs
    chosen = Random(seed)
    for kind in chosen.sample(sorted(DRAWS), 4):
        generator = np.random.default_rng(chosen.randrange(2**32))
        sizes = {size: size for size in made.sizes.values()}
        if made.sizes and chosen.random() < 0.6:
            sizes = {size: int(generator.integers(1, 6)) for size in sizes}
        named = {each.name: each.type for each in made.model.graph.input}
        inputs = {}
        for name, value in made.inputs.items():
            array = value
            if is_numbers(array):
                array = filled(array, _sized(named[name], array.shape, sizes))
                if name not in made.kept:
                    array = DRAWS[kind](generator, array)
                elif kind == "shuffled":
                    array = generator.permuted(array.reshape(-1)).reshape(array.shape)
            inputs[name] = array
        yield kind, inputs


def _sized(type_: TypeProto, shape: Sequence[int], sizes: Mapping[int, int]) -> list[int]:
    dims = type_.tensor_type.shape.dim
    return [sizes[size] if dim.dim_param else size for dim, size in zip(dims, shape, strict=True)]


def _like(
    floats: Callable[[np.random.Generator, Any], Array], low: int, high: int
) -> Callable[[np.random.Generator, Array], Array]:
    """Makes arrays of the type and shape of others, with integers from `low` to below `high`."""

    def made(generator: np.random.Generator, like: Array) -> Array:
        if like.dtype.kind == "b":
            return np.asarray(generator.integers(0, 2, like.shape), bool)
        if like.dtype.kind in "iu":
            info = np.iinfo(like.dtype)
            least, most = max(low, info.min), min(high, info.max)
            drawn = generator.integers(least, max(most, least + 1), like.shape)
            return np.asarray(drawn, like.dtype)
        return converted(np.asarray(floats(generator, like.shape)), like.dtype)

    return made


DRAWS: Mapping[str, Callable[[np.random.Generator, Array], Array]] = {
    "usual": _like(lambda g, shape: g.normal(size=shape), 0, 2),
    "large": _like(lambda g, shape: 100 * g.normal(size=shape), -(2**15), 2**15),
    "tiny": _like(lambda g, shape: 1e-4 * g.normal(size=shape), -3, 4),
    "negative": _like(lambda g, shape: -np.abs(g.normal(size=shape)), -100, 0),
    "whole": _like(lambda g, shape: np.asarray(g.integers(-3, 4, shape), float), -128, 128),
    "zero": _like(lambda g, shape: np.zeros(shape), 0, 1),
    "shuffled": _like(lambda g, shape: g.normal(size=shape), -5, 6),
}
