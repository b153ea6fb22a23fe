"""Which variants of native kernels there are, and which of them can compute a graph."""

from __future__ import annotations

from collections.abc import Callable, Collection

from collage_dsl.backends import gemm, winograd
from collage_dsl.graph import Form, Graph

DIRECT = "direct"
"""The variant that computes everything."""

PRODUCTS = ("nn.conv1d", "nn.conv2d", "nn.conv3d", "matmul")
"""The operators whose second operand is a weight that a variant may take in another form."""


def unsuitable(variant: str, graph: Graph, weights: Collection[int]) -> str | None:
    """
    Why `variant` cannot compute `graph`, a kernel by itself; None if it can. `weights` are the
    nodes of `graph` that are constants of the model.
    """
    reason = VARIANTS[variant](graph)
    if reason is None and variant in PREPARING and _computed_weight(graph, weights):
        return f"{variant} prepares weights when the model is loaded, and these are computed"
    return reason


def _computed_weight(graph: Graph, weights: Collection[int]) -> bool:
    """Whether the second operand of a product is computed from something but constants."""
    products = (node for node in graph.nodes if node.op in PRODUCTS)
    return any(not _is_constant(graph, node.inputs[1], weights) for node in products)


def _is_constant(graph: Graph, index: int, weights: Collection[int]) -> bool:
    node = graph.nodes[index]
    if index in weights or node.form in (Form.CONSTANT, Form.LITERAL):
        return True
    return bool(node.inputs) and all(_is_constant(graph, i, weights) for i in node.inputs)


def _anything(graph: Graph) -> str | None:
    return None


VARIANTS: dict[str, Callable[[Graph], str | None]] = {
    DIRECT: _anything,
    "gemm": gemm.unsuitable,
    **winograd.CHECKS,
}
"""
The variants by name, in the order in which they are measured. Each says, in one sentence, why it
cannot compute a graph, and None if it can.
"""

PREPARING = frozenset({"gemm", *winograd.CHECKS})
"""The variants whose weights are brought into another form when a model is loaded."""
