"""The answer of a search: a plan, or the reason why there is none."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import fsum

from collage_dsl.cost import Provenance, Variant
from collage_dsl.graph import CandidateKernel, Graph, Toolchain
from collage_dsl.search.reporter import SearchRecord


@dataclass(frozen=True, slots=True)
class PlannedKernel:
    """
    A candidate that was chosen, and its cost in seconds; `copies` is the part of that which goes
    into copies between devices. `variants` are those that were measured, of which the candidate's
    toolchain has the cheapest. `provenance` says where the cost came from, if that is known.
    """

    candidate: CandidateKernel
    cost: float
    copies: float = 0.0
    variants: tuple[Variant, ...] = ()
    provenance: Provenance | None = field(default=None, compare=False)

    @property
    def nodes(self) -> frozenset[str]:
        return self.candidate.nodes

    @property
    def target(self) -> str:
        return self.candidate.target

    @property
    def label(self) -> str:
        return self.candidate.label

    @property
    def variant(self) -> str:
        """The algorithm that computes it; empty where the backend has no choice."""
        return self.candidate.toolchain.variant

    @property
    def error(self) -> float | None:
        """The error of its variant, see `Variant`."""
        found = (each.error for each in self.variants if each.name == self.variant)
        return next(found, None)


@dataclass(frozen=True, slots=True)
class Plan:
    """
    Disjoint kernels that cover every operator call, in an order in which they can run.

    `cost` is the sum of the costs of the kernels in seconds. `priority` is the sum, over all
    operator calls, of the priority of the target that runs the call.

    Of two plans the one with the lower cost is better; at the same cost the one with the higher
    priority; then the one with fewer kernels; then the one that a search finds first.

    Where kernels are on several devices, values between them are on that of `home`.
    """

    graph: Graph = field(repr=False)
    kernels: tuple[PlannedKernel, ...]
    record: SearchRecord | None = field(default=None, compare=False, repr=False)
    home: Toolchain | None = None

    @property
    def cost(self) -> float:
        return fsum(kernel.cost for kernel in self.kernels)

    @property
    def priority(self) -> int:
        return sum(c.calls.bit_count() * c.toolchain.priority for c in self.candidates)

    @property
    def candidates(self) -> tuple[CandidateKernel, ...]:
        return tuple(kernel.candidate for kernel in self.kernels)


class NoPlanError(Exception):
    """
    No plan exists. `nodes` are the names of operator calls without a feasible candidate. If it
    is empty, the candidates overlap or wait for each other in every choice of them.
    """

    def __init__(self, nodes: Sequence[str]) -> None:
        self.nodes = tuple(nodes)
        super().__init__(self.nodes)

    def __str__(self) -> str:
        if not self.nodes:
            return (
                "no choice of kernels covers each operator call once: "
                "those that there are overlap, or wait for each other"
            )
        named = ", ".join(f"`{name}`" for name in self.nodes[:5])
        more = f" and {len(self.nodes) - 5} more" if len(self.nodes) > 5 else ""
        return f"no target has a kernel for {named}{more}"
