"""Kernels in a module of any shape: every dataflow block of every function."""

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import relax

from collage_dsl.frontend.dataflow import Dataflow, read_bindings, values_in
from collage_dsl.graph import CandidateKernel, Graph, Toolchain
from collage_dsl.realization.module import constants_of, kernel_attributes, kernel_name
from collage_dsl.realization.outline import outline
from collage_dsl.realization.rewrite import CalledKernel, rewritten

Choose = Callable[[Graph], Sequence[CandidateKernel]]
"""Disjoint kernels for a graph, in an order in which they can run; not all calls need one."""

Binds = Callable[[Toolchain], bool]
"""Whether the constants of a kernel go into it, rather than being parameters."""

_IN_PLACE = ("relax.call_tir_inplace", "relax.call_inplace_packed")
"""Operators that write to what they are given."""

_NOT_OURS = ("Codegen", "Primitive", "SkipOptimization", "Composite")
"""Attributes of functions that are somebody's kernel already, or are to stay as they are."""


def partition(module: tvm.IRModule, choose: Choose, binds: Binds) -> tvm.IRModule:
    """
    `module` with kernels, as `choose` has them for the graph of each dataflow block, in place of
    the bindings that they compute. All else stays as it is; where there is no kernel, all does.
    """
    return _Partitioner(module, choose, binds).run()


def module_pass(rewrite: Callable[[tvm.IRModule], tvm.IRModule], name: str) -> Any:
    """`rewrite` as a pass of TVM."""

    def transform(module: tvm.IRModule, _context: Any) -> tvm.IRModule:
        return rewrite(module)

    return tvm.transform.module_pass(transform, opt_level=0, name=name)


@dataclass(frozen=True, slots=True)
class _Kernel:
    """A function of a kernel that is in the module, and what it was before it had a name."""

    target: str
    function: Any
    callee: Any


class _Partitioner:
    def __init__(self, module: tvm.IRModule, choose: Choose, binds: Binds) -> None:
        self.module = module
        self.choose = choose
        self.binds = binds
        self.result = tvm.IRModule(
            dict(module.functions_items()), attrs=module.attrs, global_infos=module.global_infos
        )
        self.taken = set(_names(module))
        self.known: dict[int, list[_Kernel]] = {}

    def run(self) -> tvm.IRModule:
        functions = sorted(self.module.functions_items(), key=lambda item: item[0].name_hint)
        changed = False
        for var, function in functions:
            if isinstance(function, relax.Function) and is_ours(function):
                new = self.function(function)
                if new is not function:
                    self.result[var] = new
                    changed = True
        return self.result if changed else self.module

    # Expressions: the same objects where nothing in them has changed.

    def function(self, function: Any) -> Any:
        old = function.body
        body = self.sequence(old)
        if body is old:
            return function
        return relax.Function(
            function.params, body, function.ret_ty, function.is_pure, function.attrs, function.span
        )

    def sequence(self, body: Any) -> Any:
        old = list(body.blocks)
        new = [self.block(block) for block in old]
        if _is_same(new, old):
            return body
        return _typed(relax.SeqExpr(new, body.body, body.span), body.ty)

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
        """What is bound, in which there may be blocks."""
        match value:
            case relax.If():
                old = [value.true_branch, value.false_branch]
                new = [self.sequence(branch) for branch in old]
                if _is_same(new, old):
                    return value
                return _typed(relax.If(value.cond, *new, value.span), value.ty)
            case relax.Function() if is_ours(value):
                return self.function(value)
        return value

    # Dataflow blocks.

    def dataflow(self, bindings: list[Any]) -> list[Any]:
        """The bindings of a dataflow block, which `_parts` parts."""
        returned = [b.var for b in bindings if not isinstance(b.var, relax.DataflowVar)]
        parts = _parts(bindings)
        written: list[Any] = []
        changed = False
        for number, part in enumerate(parts):
            later = [binding for other in parts[number + 1 :] for binding in other]
            used = {hash(var) for binding in later for var in values_in(binding)}
            used |= {hash(var) for var in returned}
            new = self.part(part, [b.var for b in part if hash(b.var) in used])
            changed = changed or new is not part
            written += new
        return written if changed else bindings

    def part(self, bindings: list[Any], used_later: list[Any]) -> list[Any]:
        """Kernels in place of bindings, until there are no more: what is left has none."""
        while True:
            flow = read_bindings(bindings, used_later, self.function_of)
            chosen = self.choose(flow.graph) if flow.graph.calls else ()
            if not chosen:
                return bindings
            kernels = [self.called(flow, candidate) for candidate in chosen]
            bindings = rewritten(flow, used_later, kernels)

    def function_of(self, callee: Any) -> Any | None:
        """The PrimFunc that a global variable of the module names, if it names one."""
        function = self.result[callee] if callee.name_hint in self.taken else None
        return function if isinstance(function, tvm.tirx.PrimFunc) else None

    # Kernels.

    def called(self, flow: Dataflow, candidate: CandidateKernel) -> CalledKernel:
        inside = candidate.sub_graph.inside
        toolchain = candidate.toolchain
        constants = constants_of(flow.graph, inside) if self.binds(toolchain) else 0
        tags = candidate.sub_graph.composites if is_library(toolchain) else ()
        found = outline(flow, inside, constants, tags)
        return CalledKernel(inside, found, self.callee(candidate, found.function))

    def callee(self, candidate: CandidateKernel, function: Any) -> Any:
        """The global variable of a kernel's function, one for all that are equal."""
        alike = self.known.setdefault(tvm_ffi.structural_hash(function, map_free_vars=True), [])
        for kernel in alike:
            is_equal = tvm_ffi.structural_equal(kernel.function, function, map_free_vars=True)
            if kernel.target == candidate.target and is_equal:
                return kernel.callee
        name = self.unique(kernel_name(candidate))
        library = is_library(candidate.toolchain)
        attrs = kernel_attributes(name, candidate.toolchain) if library else {"Primitive": True}
        callee = tvm.ir.GlobalVar(name)
        _typed(callee, function.ty)
        self.result[callee] = function.with_attrs(attrs)
        alike.append(_Kernel(candidate.target, function, callee))
        return callee

    def unique(self, stem: str) -> str:
        name, count = stem, 1
        while name in self.taken:
            count += 1
            name = f"{stem}_{count}"
        self.taken.add(name)
        return name


def is_library(toolchain: Toolchain) -> bool:
    """Whether a library runs the kernels, and not code of TVM's own."""
    return toolchain.compiler not in (None, "tvm")


def is_ours(function: Any) -> bool:
    """Whether the dataflow blocks of a Relax function may be partitioned."""
    attrs = function.attrs or {}
    return not any(attrs.get(name) for name in _NOT_OURS)


def _names(module: tvm.IRModule) -> Iterator[str]:
    """The names that functions of the module have, inside it and outside."""
    for var, function in module.functions_items():
        yield str(var.name_hint)
        symbol = (function.attrs or {}).get("global_symbol")
        if symbol is not None:
            yield str(symbol)


def _parts(bindings: Sequence[Any]) -> list[list[Any]]:
    """
    `bindings`, parted before each cast that gives names to dimensions, and before each call that
    writes to what it is given: no kernel may read that only afterwards.
    """
    parts: list[list[Any]] = [[]]
    for binding in bindings:
        if (_finds_dimensions(binding) or _writes(binding)) and parts[-1]:
            parts.append([])
        parts[-1].append(binding)
    return parts


def _finds_dimensions(binding: Any) -> bool:
    is_cast = isinstance(binding, relax.MatchCast)
    return is_cast and bool(relax.analysis.definable_tir_vars_in_type(binding.ty))


def _writes(binding: Any) -> bool:
    value = binding.value
    is_operator = isinstance(value, tvm.ir.Call) and isinstance(value.op, tvm.ir.Op)
    return is_operator and str(value.op.name) in _IN_PLACE


def _is_same(new: Sequence[Any], old: Sequence[Any]) -> bool:
    return len(new) == len(old) and all(map(operator.is_, new, old))


def _typed(expr: Any, type_: Any) -> Any:
    """`expr`, which has no type yet, with one."""
    relax.expr._update_type(expr, type_)
    return expr
