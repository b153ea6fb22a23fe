"""Chosen kernels as a Relax module, before lowering."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import tvm
from tvm import relax, tirx

from collage_dsl.backends.base import Backend, LibraryBackend
from collage_dsl.frontend.dims import Symbols
from collage_dsl.frontend.to_relax import emit, literal
from collage_dsl.frontend.types import relax_type
from collage_dsl.graph import (
    CandidateKernel,
    Composite,
    Extract,
    Form,
    Graph,
    Node,
    OpSet,
    TensorType,
    Toolchain,
    extract,
    fingerprint,
    last,
    members,
    places,
    tensors,
)
from collage_dsl.graph.operators import CALL_TIR

BackendOf = Callable[[Toolchain], Backend]

OPTION_PREFIX = "collage."
"""Function attributes that carry the options of a kernel's toolchain begin with this."""


@dataclass(frozen=True, slots=True)
class Realized:
    """
    A module in which every kernel is a function of its own, and the candidate that each of
    these functions was made from, by the function's name.
    """

    module: tvm.IRModule
    kernels: Mapping[str, CandidateKernel]


def realize(graph: Graph, kernels: Sequence[CandidateKernel], backend_of: BackendOf) -> Realized:
    """
    A module whose `main` calls `kernels`, which cover `graph`, in the order given.

    A kernel of TVM itself is a private function with `Primitive`; one of a library a function
    with `Codegen` and `global_symbol`, and with an inner `Composite` function for each
    composite. Kernels that compute the same from the same constants share a function.
    """
    return _Writer(graph, backend_of).write(kernels)


def kernel_extract(candidate: CandidateKernel, backend: Backend, *, name: str = "main") -> Extract:
    """
    The kernel as a graph of its own. The constants that flow in are bound inside where the
    backend wants them; TVM's own functions take every tensor as a parameter.
    """
    inside = candidate.sub_graph.inside
    bound = constants_of(candidate.graph, inside) if backend.binds_constants else 0
    return extract(candidate.graph, inside, bound, name=name)


def constants_of(graph: Graph, inside: OpSet) -> OpSet:
    """The constants that flow into the nodes `inside`, those in tuples among them."""
    flows_in = graph.input(inside)
    tuples = [i for i in members(flows_in) if graph.nodes[i].form is Form.TUPLE]
    for i in tuples:
        flows_in |= graph.inputs_of[i]
    return flows_in & graph.constants


class _Writer:
    def __init__(self, graph: Graph, backend_of: BackendOf) -> None:
        self.graph = graph
        self.backend_of = cache(backend_of)
        self.builder = relax.BlockBuilder()
        self.functions: dict[object, Any] = {}
        self.kernels: dict[str, CandidateKernel] = {}
        self.values: dict[int, Any] = {}
        self.symbols: Symbols = {}

    def write(self, kernels: Sequence[CandidateKernel]) -> Realized:
        graph, builder = self.graph, self.builder
        extracts = [kernel_extract(k, self.backend_of(k.toolchain)) for k in kernels]
        callees = [self.function(k, e) for k, e in zip(kernels, extracts, strict=True)]
        for index in members(graph.parameters):
            node = graph.nodes[index]
            self.values[index] = relax.Var(node.name, relax_type(node.type, self.symbols))
        with builder.function(graph.name, [self.values[i] for i in members(graph.parameters)]):
            with builder.dataflow():
                for callee, found in zip(callees, extracts, strict=True):
                    self.call(callee, found)
                results = [self.value(index) for index in graph.outputs]
                result = relax.Tuple(results) if graph.returns_tuple else results[0]
                output = builder.emit_output(result)
            builder.emit_func_output(output)
        return Realized(builder.get(), self.kernels)

    def call(self, callee: Any, found: Extract) -> None:
        """Emit one kernel call; the names of its results are those of the nodes."""
        result = self.builder.emit(
            relax.Call(callee, [self.value(index) for index in found.arguments])
        )
        where = places(self.graph, found.results)
        fields = [result]
        if len(count := set(where.values())) > 1:
            fields = [self.builder.emit(relax.TupleGetItem(result, each)) for each in sorted(count)]
        self.values |= {index: fields[place] for index, place in where.items()}

    def value(self, index: int) -> Any:
        """The expression of a node; what needs no kernel is made where it is first wanted."""
        if index not in self.values:
            self.values[index] = self.free(index)
        return self.values[index]

    def free(self, index: int) -> Any:
        node = self.graph.nodes[index]
        match node.form:
            case Form.CONSTANT | Form.LITERAL:
                return literal(node, self.symbols)
            case Form.TUPLE:
                return relax.Tuple([self.value(operand) for operand in node.inputs])
            case Form.PROJECTION:
                return self.builder.emit(relax.TupleGetItem(self.value(node.inputs[0]), node.value))
        raise ValueError(f"no kernel computes `{node.name}`")

    def function(self, kernel: CandidateKernel, found: Extract) -> Any:
        """The global function that runs `kernel`, shared with equal kernels."""
        bound = [id(n.value) for n in found.graph.nodes if n.form is Form.CONSTANT]
        key = (kernel.toolchain.name, kernel_key(kernel, found), tuple(bound))
        if key not in self.functions:
            name = self.unique_name(kernel)
            self.kernels[name] = kernel
            self.functions[key] = self.define(name, kernel, found)
        return self.functions[key]

    def unique_name(self, kernel: CandidateKernel) -> str:
        stem = kernel_name(kernel)
        name, count = stem, 1
        while name in self.kernels:
            count += 1
            name = f"{stem}_{count}"
        return name

    def define(self, name: str, kernel: CandidateKernel, found: Extract) -> Any:
        library = isinstance(self.backend_of(kernel.toolchain), LibraryBackend)
        composites = inner_composites(kernel, found) if library else ()
        attrs = kernel_attributes(name, kernel.toolchain) if library else {"Primitive": True}
        function = _function(found.graph, composites, attrs, self.compiled(found.graph))
        return self.builder.add_func(function, name)

    def compiled(self, kernel: Graph) -> dict[int, Any]:
        """The global variable of each PrimFunc that a kernel calls, by node."""
        return {
            index: self.builder.add_func(_specialized(kernel, node), "compiled")
            for index, node in enumerate(kernel.nodes)
            if node.op == CALL_TIR
        }


def _specialized(kernel: Graph, node: Node) -> Any:
    """
    The PrimFunc that `node` calls, with numbers for the dimensions that the call has numbers for:
    FuseTIR does not find them out.
    """
    function: Any = node.value
    types = [*(kernel.nodes[operand].type for operand in node.inputs), *tensors(node.type)]
    known = {}
    for param, type_ in zip(function.params, types, strict=False):
        if not isinstance(type_, TensorType) or not type_.is_static:
            continue
        if all(isinstance(dim, tirx.IntImm | tvm.ir.Var) for dim in param.shape):
            shape = [tirx.IntImm("int64", dim) for dim in type_.static_shape]
            known[param] = tirx.decl_buffer(shape, type_.dtype, param.name)
    return function.specialize(known).without_attr("global_symbol")


def kernel_name(kernel: CandidateKernel) -> str:
    """A readable stem for the function of a kernel: `tvm_conv2d_add_relu`."""
    ops = [op.split(".")[-1] for op in kernel.graph.operators(kernel.sub_graph.inside)]
    shown = ops if len(ops) <= 4 else [*ops[:2], f"{len(ops)}_operators"]
    return re.sub(r"\W", "_", "_".join([kernel.target, *shown]))


def kernel_attributes(name: str, toolchain: Toolchain) -> dict[str, Any]:
    """The attributes of the function of a library's kernel."""
    options = {OPTION_PREFIX + key: value for key, value in toolchain.options.items()}
    return {"Codegen": toolchain.compiler, "global_symbol": name, **options}


def inner_composites(kernel: CandidateKernel, found: Extract) -> tuple[Composite, ...]:
    """The composites of `kernel` as sets of nodes of the kernel's own graph."""
    return tuple(c.moved(kernel.graph, found.graph) for c in kernel.sub_graph.composites)


def kernel_key(kernel: CandidateKernel, found: Extract) -> str:
    """What `kernel` computes, and which composites a library is told of."""
    return f"{fingerprint(found.graph)} {inner_composites(kernel, found)}"


def _function(
    graph: Graph,
    composites: Sequence[Composite],
    attrs: Mapping[str, Any],
    callees: Mapping[int, Any] | None = None,
) -> Any:
    """The Relax function that computes `graph`, its composites as inner functions."""
    builder = relax.BlockBuilder()
    symbols: Symbols = {}
    values = {
        index: relax.Var(graph.nodes[index].name, relax_type(graph.nodes[index].type, symbols))
        for index in members(graph.parameters)
    }
    with builder.function("kernel", list(values.values()), private=True):
        if composites:
            _emit_composites(builder, graph, values, composites, symbols)
        else:
            with builder.dataflow():
                outputs = graph.results & graph.computed
                values |= emit(
                    builder,
                    graph,
                    values,
                    outputs=outputs,
                    symbols=symbols,
                    is_typed=True,
                    callees=callees,
                )
        where = places(graph, graph.outputs)
        results = list({place: values[index] for index, place in where.items()}.values())
        builder.emit_func_output(results[0] if len(results) == 1 else relax.Tuple(results))
    return builder.get()["kernel"].with_attrs(dict(attrs))


def _emit_composites(
    builder: relax.BlockBuilder,
    graph: Graph,
    values: dict[int, Any],
    composites: Sequence[Composite],
    symbols: Symbols,
) -> None:
    """
    Emit each composite as a call of an inner function, and all else as it is.

    A composite has one result, its last node, before which all that flows into it is known.
    """
    by_last = {last(composite.inside): composite for composite in composites}
    tagged = 0
    for composite in composites:
        tagged |= composite.inside
    for index in members(graph.computed):
        if index in by_last:
            values[index] = _emit_composite(builder, graph, values, by_last[index])
        elif not tagged >> index & 1:
            values |= emit(builder, graph, values, 1 << index, symbols=symbols, is_typed=True)


def _emit_composite(
    builder: relax.BlockBuilder, graph: Graph, values: Mapping[int, Any], composite: Composite
) -> Any:
    found = extract(graph, composite.inside, composite.constants)
    parts = [part.moved(graph, found.graph) for part in composite.parts]
    function = _function(found.graph, parts, {"Composite": composite.label})
    callee = builder.emit(function)
    known = [values.get(i, None) for i in found.arguments]
    arguments = [
        literal(graph.nodes[i], {}) if value is None else value
        for i, value in zip(found.arguments, known, strict=True)
    ]
    return builder.emit(relax.Call(callee, arguments))
