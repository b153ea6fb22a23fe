"""Put the functions of chosen kernels into a module, equal ones once."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import tvm
import tvm_ffi
from tvm import relax

from collage_dsl.backends.base import Backend
from collage_dsl.backends.registry import BackendOf
from collage_dsl.frontend.to_relax import dataflow_of
from collage_dsl.graph import (
    CandidateKernel,
    Extract,
    Form,
    OpSet,
    Toolchain,
    places,
    tensors,
)
from collage_dsl.realization.crossing import Crossing, crossing_of, on_device
from collage_dsl.realization.kernel import (
    kernel_identity,
    kernel_name,
    kernel_of,
    kernel_view,
    marked,
)
from collage_dsl.realization.outline import Outlined, weights_of
from collage_dsl.realization.replaced import global_var, with_functions


@dataclass(frozen=True, slots=True)
class Kernel:
    """
    A kernel of a dataflow graph: its nodes, its function, and the variable that names it. What it
    takes and gives is copied where it has a `crossing`.
    """

    inside: OpSet
    outlined: Outlined
    callee: Any
    crossing: Crossing | None = None


@dataclass(frozen=True, slots=True)
class _Placed:
    """A function in the module before it had a name, and the toolchain that it is for."""

    toolchain: Toolchain
    function: Any
    callee: Any


class Placer:
    """
    Puts the functions of kernels into a copy of a module, equal ones once. Values that are planned
    for no device are on that of the TVM target `default`; None where all kernels are. No function
    gets one of the `reserved` names.
    """

    def __init__(
        self,
        module: tvm.IRModule,
        backend_of: BackendOf,
        default: Any = None,
        reserved: Sequence[str] = (),
    ) -> None:
        self.module = with_functions(module, dict(module.functions_items()))
        self.backend_of = backend_of
        self.default = default
        self.taken = {*_names(module), *reserved}
        self.known: dict[int, list[_Placed]] = {}
        self.seen: dict[object, Kernel] = {}

    def place(self, candidate: CandidateKernel) -> Kernel:
        """Raises ValueError where a constant of the kernel has no value."""
        backend = self.backend_of(candidate.toolchain)
        view = kernel_view(candidate, backend)
        key = self.key(candidate, backend, view)
        if key is None:
            return self.placed(candidate, backend)
        if key not in self.seen:
            self.seen[key] = self.placed(candidate, backend)
        return _moved(self.seen[key], candidate, view)

    def key(self, candidate: CandidateKernel, backend: Backend, view: Extract) -> object | None:
        """
        Equal for kernels that are one function, so that the function is not made again to compare
        it. None if the kernel has symbolic dimensions or devices, which the key does not cover.
        """
        graph, nodes = candidate.graph, view.graph.nodes
        is_symbolic = any(not type_.is_static for node in nodes for type_ in tensors(node.type))
        if is_symbolic or graph.planned:
            return None
        weights = tuple(id(node.value) for node in nodes if node.form is Form.CONSTANT)
        variant, record = candidate.toolchain.variant, candidate.toolchain.record
        identity = kernel_identity(candidate, backend, view)
        return candidate.target, variant, record, identity, weights

    def placed(self, candidate: CandidateKernel, backend: Backend) -> Kernel:
        outlined = kernel_of(candidate, backend)
        function = outlined.bound(weights_of(dataflow_of(candidate.graph), outlined))
        crossing = self.crossing(candidate)
        if crossing is not None:
            function = on_device(function, crossing.there)
        callee = self.callee(candidate, function)
        return Kernel(candidate.sub_graph.inside, outlined, callee, crossing)

    def crossing(self, candidate: CandidateKernel) -> Crossing | None:
        if self.default is None:
            return None
        return crossing_of(self.module, candidate, self.default)

    def callee(self, candidate: CandidateKernel, function: Any) -> Any:
        """The global variable of a kernel's function. Equal functions have the same variable."""
        alike = self.known.setdefault(tvm_ffi.structural_hash(function, map_free_vars=True), [])
        for placed in alike:
            is_equal = tvm_ffi.structural_equal(placed.function, function, map_free_vars=True)
            if placed.toolchain == candidate.toolchain and is_equal:
                return placed.callee
        name = unique(kernel_name(candidate), self.taken)
        callee = global_var(name, function.ty)
        backend = self.backend_of(candidate.toolchain)
        self.module[callee] = marked(function, name, candidate.toolchain, backend)
        alike.append(_Placed(candidate.toolchain, function, callee))
        return callee


def unique(stem: str, taken: set[str]) -> str:
    """A name that is not in `taken`; adds it to `taken`."""
    name, count = stem, 1
    while name in taken:
        count += 1
        name = f"{stem}_{count}"
    taken.add(name)
    return name


def _moved(kernel: Kernel, candidate: CandidateKernel, view: Extract) -> Kernel:
    """The same function for the nodes of `candidate`."""
    results = places(candidate.graph, view.results)
    outlined = replace(kernel.outlined, arguments=view.arguments, results=results)
    return replace(kernel, inside=candidate.sub_graph.inside, outlined=outlined)


def _names(module: tvm.IRModule) -> Iterator[str]:
    """
    The names that functions of the module have, inside it and outside, and those of the functions
    outside that it calls: one may be a kernel that `RunCodegen` has compiled.
    """
    for var, function in module.functions_items():
        yield str(var.name_hint)
        yield from _external(function)
        symbol = (function.attrs or {}).get("global_symbol")
        if symbol is not None:
            yield str(symbol)


def _external(function: Any) -> list[str]:
    names: list[str] = []

    def note(callee: Any) -> None:
        names.append(str(callee.global_symbol))

    if isinstance(function, relax.Function):
        tvm_ffi.structural_walk(function, (relax.ExternFunc, note))
    return names
