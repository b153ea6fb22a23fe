"""The function of a kernel: what it computes, which backends make it, and how passes see that."""

import re
from typing import Any

import numpy as np

from collage_dsl.backends.base import Backend, Placement
from collage_dsl.backends.registry import BackendOf
from collage_dsl.backends.schedule.functions import PRODUCT_DTYPES, PRODUCTS
from collage_dsl.backends.tvm_target import kernel_target
from collage_dsl.frontend.to_relax import dataflow_of
from collage_dsl.graph import (
    CandidateKernel,
    Composite,
    Extract,
    Graph,
    Node,
    OpSet,
    TensorType,
    Toolchain,
    extract,
    fingerprint,
    libraries,
    members,
    special_zero,
    union_of,
)
from collage_dsl.graph.onnx_node import constants_inside
from collage_dsl.graph.tuning import RECORD
from collage_dsl.graph.variants import DIRECT
from collage_dsl.realization.outline import Outlined, outline

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
    graph, inside = candidate.graph, candidate.sub_graph.inside
    found = _constants_in(graph, kept_composites(candidate, backend))
    return found | _scalars(graph, inside) | _zero_points(graph, inside)


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


def _zero_points(graph: Graph, inside: OpSet) -> OpSet:
    """Zero points of operators inside with which these need no sums of operands."""
    found = 0
    for index in members(graph.input(inside) & graph.constants):
        users = [graph.nodes[i] for i in members(graph.users_of[index] & inside)]
        is_zero = all(user.op == "dequantize" and index == user.inputs[2] for user in users)
        value = graph.nodes[index].value
        if is_zero and value is not None and special_zero(value) is not None:
            found |= 1 << index
    return found


def _has_number(graph: Graph, user: Node, constant: int) -> bool:
    """Whether `constant` is an operand of `user`, and the other one is computed."""
    others = [index for index in user.inputs if index != constant]
    is_other_known = any(graph.constants >> index & 1 for index in others)
    if user.op not in _WITH_SCALARS or len(others) != 1 or is_other_known:
        return False
    number = graph.nodes[constant]
    return not _stays_a_tensor(user, number, is_second=user.inputs[1] == constant)


def _stays_a_tensor(user: Node, number: Node, *, is_second: bool) -> bool:
    """Whether `checked_operators` takes no number for an operand of `user`."""
    if not isinstance(number.type, TensorType):
        return False
    dtype = str(number.type.dtype)
    if "int" not in dtype:
        if user.op != "power" or not is_second or number.value is None:
            return False
        exponent = float(np.asarray(number.value))
        return exponent >= 3 and not (exponent in PRODUCTS and dtype in PRODUCT_DTYPES)
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
    """
    The constants that flow into the nodes `inside`, directly or in tuples, except those that ONNX
    nodes have in their models.
    """
    flows_in = graph.input(inside)
    in_tuples = union_of(graph.inputs_of[i] for i in members(flows_in & graph.tuples))
    return (flows_in | in_tuples) & graph.constants & ~constants_inside(graph, members(inside))


def _constants_in(graph: Graph, composites: tuple[Composite, ...]) -> OpSet:
    found = 0
    for composite in composites:
        own = composite.constants & ~constants_inside(graph, members(composite.inside))
        found |= own | _constants_in(graph, composite.parts)
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
