"""Which variants of native kernels there are, and which of them can compute a graph."""

from __future__ import annotations

from collections.abc import Callable

from collage_dsl.backends import products
from collage_dsl.graph import Graph

DIRECT = "direct"
"""The variant that computes everything."""


def unsuitable(graph: Graph, variant: str) -> str | None:
    """Why `variant` cannot compute `graph`, a kernel by itself; None if it can."""
    return VARIANTS[variant](graph)


def _anything(graph: Graph) -> str | None:
    return None


VARIANTS: dict[str, Callable[[Graph], str | None]] = {
    DIRECT: _anything,
    **products.CHECKS,
}
"""
The variants by name, in the order in which they are measured. Each says, in one sentence, why it
cannot compute a graph, and None if it can.
"""
