"""Put kernels into a Relax module: into one function, or every dataflow block of a module."""

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import relax

from collage_dsl.backends.registry import BackendOf
from collage_dsl.frontend.blocks import read_bindings
from collage_dsl.frontend.dataflow import values_in
from collage_dsl.frontend.from_relax import functions_of
from collage_dsl.frontend.to_relax import dataflow_of
from collage_dsl.graph import CandidateKernel, Graph, covered, members
from collage_dsl.memory import uncollected
from collage_dsl.realization.entry import entry_name
from collage_dsl.realization.place import Kernel, Placer
from collage_dsl.realization.replaced import typed, with_blocks, with_body
from collage_dsl.realization.rewrite import rewritten
from collage_dsl.realization.variants import pinned
from collage_dsl.realization.writes import writes

Choose = Callable[[Graph], Sequence[CandidateKernel]]
"""Chooses disjoint kernels for a graph, in an order in which they can run; calls may be left."""

_NOT_OURS = ("Codegen", "Primitive", "SkipOptimization", "Composite")
"""Attributes of functions that are kernels already, or that must stay as they are."""


def realize(
    graph: Graph,
    kernels: Sequence[CandidateKernel],
    backend_of: BackendOf,
    default: Any = None,
) -> tvm.IRModule:
    """
    The module that `graph` was read from, with calls of `kernels` in place of the bindings of its
    function. The kernels cover the graph.

    The function has one dataflow block afterwards. Values between kernels are on the device of the
    TVM target `default`, and are copied for kernels on others; without it, all are on one device.
    Raises ValueError where no kernel computes a call, and where a constant has no value.
    """
    return realized(graph, kernels, backend_of, default).module


@dataclass(frozen=True, slots=True)
class KernelCall:
    """
    The call of a kernel in a realized module: the name of its function, the nodes of its first
    arguments, and its results as in `Outlined`.
    """

    candidate: CandidateKernel
    name: str
    arguments: tuple[int, ...]
    results: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Realized:
    """The module of `realize`, and the calls of kernels in the order of its function."""

    module: tvm.IRModule
    calls: tuple[KernelCall, ...]


@uncollected()
def realized(
    graph: Graph,
    kernels: Sequence[CandidateKernel],
    backend_of: BackendOf,
    default: Any = None,
) -> Realized:
    """See `realize`."""
    placer = Placer(dataflow_of(graph).module, backend_of, default)
    return Realized(placer.module, _written(graph, kernels, placer))


@uncollected()
def realized_together(
    parts: Sequence[tuple[Graph, Sequence[CandidateKernel]]],
    backend_of: BackendOf,
    default: Any = None,
) -> tuple[tvm.IRModule, list[tuple[KernelCall, ...]]]:
    """
    One module with an entry function for each of several graphs with their kernels (see
    `realization.entry`), and the calls of each. Kernels that are equal are one function. The graphs
    have no functions but their own.
    """
    first, _ = parts[0]
    names = [entry_name(position) for position in range(len(parts))]
    placer = Placer(dataflow_of(first).module, backend_of, default, names)
    calls = [
        _written(graph, kernels, placer, name)
        for name, (graph, kernels) in zip(names, parts, strict=True)
    ]
    return placer.module, calls


def _written(
    graph: Graph, kernels: Sequence[CandidateKernel], placer: Placer, name: str = ""
) -> tuple[KernelCall, ...]:
    """
    Put the function of `graph`, with calls of `kernels`, into the module of `placer`, by the `name`
    if there is one.
    """
    _check_covered(graph, kernels)
    flow = dataflow_of(graph)
    function = flow.module[flow.name]
    known = {hash(binding.var) for binding in flow.bindings}
    every = [binding for block in function.body.blocks for binding in block.bindings]
    tail = [binding for binding in every if hash(binding.var) not in known]
    used = [*relax.analysis.free_vars(function.body.body), *(v for b in tail for v in values_in(b))]
    chosen = [_pinned(placer, kernel) for kernel in kernels]
    placed = [placer.place(kernel) for kernel in chosen]
    written, order = rewritten(flow, used, placed)
    block = relax.DataflowBlock([*written, *tail])
    made = with_body(function, with_blocks(function.body, [block]))
    placer.module[name or flow.name] = made.with_attr("global_symbol", name) if name else made
    return tuple(_call(chosen[position], placed[position]) for position in order)


def _call(candidate: CandidateKernel, kernel: Kernel) -> KernelCall:
    found = kernel.outlined
    return KernelCall(candidate, str(kernel.callee.name_hint), found.arguments, found.results)


def _pinned(placer: Placer, candidate: CandidateKernel) -> CandidateKernel:
    return pinned(candidate, placer.backend_of(candidate.toolchain))


def _check_covered(graph: Graph, kernels: Sequence[CandidateKernel]) -> None:
    for index in members(graph.calls & ~covered(kernels)):
        raise ValueError(f"no kernel computes `{graph.nodes[index].name}`")


def partition(
    module: tvm.IRModule, choose: Choose, backend_of: BackendOf, default: Any = None
) -> tvm.IRModule:
    """
    `module` with kernels, as `choose` has them for the graph of each dataflow block, in place of
    the bindings that they compute. All else stays as it is; where there is no kernel, all does.
    Values that are planned for no device are on that of the TVM target `default`.
    """
    return _Partitioner(module, choose, backend_of, default).run()


def module_pass(
    rewrite: Callable[[tvm.IRModule], tvm.IRModule],
    name: str,
    errors: Sequence[type[Exception]] = (),
) -> Any:
    """
    `rewrite` as a pass of TVM, which keeps the classes `errors` of what `rewrite` raises. What it
    raises of other classes of ours is a `RuntimeError`.
    """
    for error in errors:
        tvm_ffi.error.register_error(error)

    def transform(module: tvm.IRModule, _context: Any) -> tvm.IRModule:
        return rewrite(module)

    return tvm.transform.module_pass(transform, opt_level=0, name=name)


class _Partitioner:
    def __init__(
        self, module: tvm.IRModule, choose: Choose, backend_of: BackendOf, default: Any
    ) -> None:
        self.module = module
        self.choose = choose
        self.functions = functions_of(module)
        self.placer = Placer(module, backend_of, default)

    def run(self) -> tvm.IRModule:
        functions = sorted(self.module.functions_items(), key=lambda item: item[0].name_hint)
        changed = False
        for var, function in functions:
            if isinstance(function, relax.Function) and is_ours(function):
                new = self.function(function)
                if new is not function:
                    self.placer.module[var] = new
                    changed = True
        return self.placer.module if changed else self.module

    # Expressions. If nothing in an expression has changed, the same object is returned.

    def function(self, function: Any) -> Any:
        old = function.body
        body = self.sequence(old)
        return function if body is old else with_body(function, body)

    def sequence(self, body: Any) -> Any:
        old = list(body.blocks)
        new = [self.block(block) for block in old]
        return body if _is_same(new, old) else with_blocks(body, new)

    def block(self, block: Any) -> Any:
        old = list(block.bindings)
        new = [self.binding(binding) for binding in old]
        if isinstance(block, relax.DataflowBlock):
            new = self.dataflow(new)
            return block if _is_same(new, old) else relax.DataflowBlock(new, block.span)
        return block if _is_same(new, old) else relax.BindingBlock(new, block.span)

    def binding(self, binding: Any) -> Any:
        old = binding.value
        value = self.value(old)
        return binding if value is old else relax.VarBinding(binding.var, value, binding.span)

    def value(self, value: Any) -> Any:
        """A bound value, which may contain blocks."""
        match value:
            case relax.If():
                old = [value.true_branch, value.false_branch]
                new = [self.sequence(branch) for branch in old]
                if _is_same(new, old):
                    return value
                return typed(relax.If(value.cond, *new, value.span), value.ty)
            case relax.Function() if is_ours(value):
                return self.function(value)
        return value

    # Dataflow blocks.

    def dataflow(self, bindings: list[Any]) -> list[Any]:
        """The bindings of a dataflow block, part by part (see `_parts`)."""
        returned = {hash(b.var) for b in bindings if not isinstance(b.var, relax.DataflowVar)}
        parts = _parts(bindings)
        uses = [
            (n, hash(var)) for n, part in enumerate(parts) for b in part for var in values_in(b)
        ]
        last_use = {var: number for number, var in uses}
        written: list[Any] = []
        changed = False
        for number, part in enumerate(parts):
            used_later = [
                b.var
                for b in part
                if hash(b.var) in returned or last_use.get(hash(b.var), 0) > number
            ]
            new = self.part(part, used_later)
            changed = changed or new is not part
            written += new
        return written if changed else bindings

    def part(self, bindings: list[Any], used_later: list[Any]) -> list[Any]:
        """Put kernels in place of bindings, until `choose` finds no more kernels."""
        while True:
            flow = read_bindings(bindings, used_later, self.functions)
            chosen = self.choose(flow.graph) if flow.graph.calls else ()
            if not chosen:
                return bindings
            kernels = [self.placer.place(_pinned(self.placer, each)) for each in chosen]
            bindings, _ = rewritten(flow, used_later, kernels)


def is_ours(function: Any) -> bool:
    """Whether the dataflow blocks of a Relax function may be partitioned."""
    attrs = function.attrs or {}
    return not any(attrs.get(name) for name in _NOT_OURS)


def _parts(bindings: Sequence[Any]) -> list[list[Any]]:
    """
    `bindings`, divided before each cast that defines dimensions, and before each call that writes
    to its arguments. So no kernel reads such an argument only after the write.
    """
    parts: list[list[Any]] = [[]]
    for binding in bindings:
        if (_finds_dimensions(binding) or writes(binding)) and parts[-1]:
            parts.append([])
        parts[-1].append(binding)
    return parts


def _finds_dimensions(binding: Any) -> bool:
    is_cast = isinstance(binding, relax.MatchCast)
    return is_cast and bool(relax.analysis.definable_tir_vars_in_type(binding.ty))


def _is_same(new: Sequence[Any], old: Sequence[Any]) -> bool:
    return len(new) == len(old) and all(map(operator.is_, new, old))
