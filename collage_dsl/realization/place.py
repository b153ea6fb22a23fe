"""Make the function of a chosen kernel, mark it for the passes that lower it, and name it."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import relax

from collage_dsl.backends.base import Backend, Placement
from collage_dsl.backends.registry import BackendOf
from collage_dsl.backends.tvm import kernel_target
from collage_dsl.frontend.to_relax import dataflow_of
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
    libraries,
    members,
    places,
    tensors,
    union_of,
)
from collage_dsl.graph.tuning import RECORD
from collage_dsl.graph.variants import DIRECT
from collage_dsl.realization.crossing import Crossing, crossing_of, on_device
from collage_dsl.realization.outline import Outlined, outline, weights_of

OPTION_PREFIX = "collage."
"""The prefix of function attributes that carry the options of a kernel's toolchain."""

BACKEND = "collage_backend"
"""The function attribute that names the backend of a primitive kernel."""

TARGET = "target"
"""The function attribute with the TVM target that a kernel was chosen for."""

VARIANT = "collage_variant"
"""The function attribute that names the variant of a primitive kernel."""


def kernel_of(candidate: CandidateKernel, backend: Backend) -> Outlined:
    """
    The function of a kernel. The same function is measured and put into a module.

    If the backend binds constants, its weights are all constants that flow in. Otherwise they are
    only the constants that a composite binds.
    """
    flow, inside = dataflow_of(candidate.graph), candidate.sub_graph.inside
    constants = bound_constants(candidate, backend)
    return outline(flow, inside, constants, kept_composites(candidate, backend))


def kernel_view(candidate: CandidateKernel, backend: Backend) -> Extract:
    """The graph of the function that `kernel_of` makes, without making it."""
    constants = bound_constants(candidate, backend)
    return extract(candidate.graph, candidate.sub_graph.inside, constants)


def kernel_identity(candidate: CandidateKernel, backend: Backend, view: Extract) -> str:
    """Equal for kernels whose functions are equal, except for values of weights and devices."""
    graph = candidate.graph
    composites = [c.moved(graph, view.graph) for c in kept_composites(candidate, backend)]
    return f"{fingerprint(view.graph)} {composites}"


def bound_constants(candidate: CandidateKernel, backend: Backend) -> OpSet:
    """The constants that go into the function of a kernel."""
    if backend.binds_constants:
        return constants_of(candidate.graph, candidate.sub_graph.inside)
    inside = candidate.sub_graph.inside
    return _constants_in(kept_composites(candidate, backend)) | _scalars(candidate.graph, inside)


_WITH_SCALARS = frozenset(
    (
        *("add", "subtract", "multiply", "divide", "floor_divide", "power", "maximum", "minimum"),
        *("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"),
    )
)
"""
Operators of which TVM takes a scalar constant into the code. It can then compute with the number:
`x ** 0.75` by square roots.
"""


def _scalars(graph: Graph, inside: OpSet) -> OpSet:
    """The scalar constants that operators inside may have as numbers in their code."""
    found = 0
    for index in members(graph.input(inside) & graph.constants):
        type_ = graph.nodes[index].type
        is_scalar = isinstance(type_, TensorType) and type_.shape == ()
        users = (graph.nodes[i] for i in members(graph.users_of[index] & inside))
        if is_scalar and all(_has_number(graph, user, index) for user in users):
            found |= 1 << index
    return found if all(graph.nodes[i].value is not None for i in members(found)) else 0


def _has_number(graph: Graph, user: Node, constant: int) -> bool:
    """Whether `constant` is an operand of `user`, and the other one is computed."""
    others = [index for index in user.inputs if index != constant]
    is_other_known = any(graph.constants >> index & 1 for index in others)
    if user.op not in _WITH_SCALARS or len(others) != 1 or is_other_known:
        return False
    return not _stays_a_tensor(user, graph.nodes[constant])


def _stays_a_tensor(user: Node, number: Node) -> bool:
    """Whether `checked_operators` takes no number for an integer operand of `user`."""
    if not isinstance(number.type, TensorType) or "int" not in str(number.type.dtype):
        return False
    is_quotient = user.op in ("divide", "floor_divide")
    return user.op == "power" or (is_quotient and not np.asarray(number.value).any())


def kept_composites(candidate: CandidateKernel, backend: Backend) -> tuple[Composite, ...]:
    """
    The composites that become inner functions: all composites of a library's kernel; in a
    primitive kernel, those of a library that the target links to.
    """
    composites = candidate.sub_graph.composites
    if backend.placement is Placement.CODEGEN:
        return composites
    linked = libraries(candidate.toolchain)
    return tuple(each for each in composites if library_of(each.label) in linked)


def library_of(label: str) -> str:
    """The library that runs a composite, by its label: `onednn` for `onednn.conv`."""
    return label.partition(".")[0]


def makers(candidate: CandidateKernel, backend_of: BackendOf) -> tuple[Backend, ...]:
    """
    The backends that make the code of a kernel: that of its toolchain, then those of the libraries
    that a primitive kernel is linked to. Raises the same errors as `backend_of`.
    """
    backend = backend_of(candidate.toolchain)
    if backend.placement is Placement.CODEGEN:
        return (backend,)
    labels = (each.label for each in kept_composites(candidate, backend))
    names = sorted({library_of(label) for label in labels})
    return backend, *(backend_of(Toolchain(name, compiler=name)) for name in names)


def constants_of(graph: Graph, inside: OpSet) -> OpSet:
    """The constants that flow into the nodes `inside`, directly or in tuples."""
    flows_in = graph.input(inside)
    in_tuples = union_of(graph.inputs_of[i] for i in members(flows_in & graph.tuples))
    return (flows_in | in_tuples) & graph.constants


def _constants_in(composites: tuple[Composite, ...]) -> OpSet:
    found = 0
    for composite in composites:
        found |= composite.constants | _constants_in(composite.parts)
    return found


def kernel_name(kernel: CandidateKernel) -> str:
    """A readable start of the name of a kernel's function: `tvm_conv2d_add_relu`."""
    ops = [op.split(".")[-1] for op in kernel.graph.operators(kernel.sub_graph.inside)]
    shown = ops if len(ops) <= 4 else [*ops[:2], f"{len(ops)}_operators"]
    variant = kernel.toolchain.variant
    named = [variant] if variant not in ("", DIRECT) else []
    return re.sub(r"\W", "_", "_".join([kernel.target, *named, *shown]))


def marked(function: Any, name: str, toolchain: Toolchain, backend: Backend) -> Any:
    """`function` with the attributes that tell later passes which backend makes its code."""
    attrs: dict[str, Any] = {TARGET: kernel_target(toolchain)}
    match backend.placement:
        case Placement.PRIMITIVE:
            attrs |= {"Primitive": True, BACKEND: backend.name}
            if toolchain.variant:
                attrs[VARIANT] = toolchain.variant
            if toolchain.record:
                attrs[RECORD] = toolchain.record.text()
        case Placement.CODEGEN:
            options = {OPTION_PREFIX + key: value for key, value in toolchain.options.items()}
            attrs |= {"Codegen": backend.name, "global_symbol": name, **options}
    return function.with_attrs(attrs)


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
        self.module = tvm.IRModule(
            dict(module.functions_items()), attrs=module.attrs, global_infos=module.global_infos
        )
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
        callee = tvm.ir.GlobalVar(name)
        relax.expr._update_type(callee, function.ty)
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
    """The names that functions of the module have, inside it and outside."""
    for var, function in module.functions_items():
        yield str(var.name_hint)
        symbol = (function.attrs or {}).get("global_symbol")
        if symbol is not None:
            yield str(symbol)
