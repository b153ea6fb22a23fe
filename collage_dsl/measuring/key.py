"""What the price of a kernel is stored under: the kernel, and all that its price depends on."""

import hashlib
import json
from dataclasses import astuple, replace

import tvm

from collage_dsl.backends.base import Backend
from collage_dsl.backends.tvm import machine_target
from collage_dsl.graph import CandidateKernel, Extract, Graph, Measuring, Toolchain, tensors
from collage_dsl.graph.sizes import Sizes, names_in
from collage_dsl.measuring.timing import cpu_name
from collage_dsl.realization.place import kernel_identity

_METHOD = 2
"""Counts the ways of measuring; costs measured in another way are not reused."""


def kernel_key(
    candidate: CandidateKernel, backend: Backend, view: Extract, sizes: Sizes | None = None
) -> str:
    """
    What a kernel computes, as a hash: its graph, the composites that the backend is told of, and
    the `sizes` of its symbolic dimensions.
    """
    used = dimensions(view.graph)
    measured_at = sorted((name, size) for name, size in (sizes or {}).items() if name in used)
    identity = kernel_identity(candidate, backend, view)
    return _hash([identity, *([measured_at] if used else [])])


def dimensions(graph: Graph) -> frozenset[str]:
    """The names of the symbolic dimensions in the types of `graph`."""
    found: set[str] = set()
    for node in graph.nodes:
        for type_ in tensors(node.type):
            if not type_.is_static:
                found.update(*(names_in(dim) for dim in type_.shape or ()))
    return frozenset(found)


def context_of(toolchain: Toolchain, backend: Backend, *libraries: Backend) -> str:
    """
    Everything but the kernel that its cost depends on, as a hash; `libraries` are those that the
    kernel is linked to. The time-out is not in it: a cost that was measured in time is the same
    with another.
    """
    measure = replace(toolchain.measure, timeout=None)
    tvm_version = tvm.__version__
    return _hash(
        [
            toolchain.kind,
            toolchain.compiler,
            sorted(toolchain.options.items()),
            machine_target(toolchain),
            repr(backend),
            backend.version,
            tvm_version,
            cpu_name(),
            _METHOD,
            *([] if measure == Measuring() else astuple(measure)),
            *((repr(each), each.version) for each in libraries),
        ]
    )


def _hash(content: object) -> str:
    text = json.dumps(content, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()
