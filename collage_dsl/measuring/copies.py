"""What the copies of a kernel cost that is on another device than the values around it."""

from dataclasses import dataclass, field

from collage_dsl.backends.registry import BackendOf
from collage_dsl.cost import Copies, Cost, CostFunction, Infeasible
from collage_dsl.graph import CandidateKernel, places, tensors
from collage_dsl.graph.sizes import Sizes, with_sizes
from collage_dsl.realization.crossing import crosses
from collage_dsl.realization.kernel import kernel_view


@dataclass(frozen=True, slots=True)
class CopyCost:
    """
    A `CostFunction`: the seconds of the copies that a kernel needs. It takes a copy of each
    tensor but the weights that are bound in it, and gives a copy of each of its results.

    There are none on the device of targets of the kind `default`, nor where calls of the kernel
    are planned for a device. A plan may need fewer copies: neighbours on one device need none.
    """

    copies: Copies
    default: str
    backend_of: BackendOf
    sizes: Sizes = field(default_factory=dict)

    def __call__(self, candidate: CandidateKernel) -> Cost:
        if not crosses(candidate, self.default):
            return 0.0
        seconds = 0.0
        found = kernel_view(candidate, self.backend_of(candidate.toolchain))
        one_each = {place: index for index, place in places(candidate.graph, found.results).items()}
        graph = with_sizes(candidate.graph, self.sizes) if self.sizes else candidate.graph
        for index in (*found.arguments, *one_each.values()):
            node = graph.nodes[index]
            for type_ in tensors(node.type):
                if type_.bytes is None:
                    return Infeasible(f"`{node.name}` is copied, and its size is not known")
                seconds += self.copies(type_.bytes)
        return seconds

    def added_to(self, cost: CostFunction) -> CostFunction:
        """`cost`, and that of the copies."""

        def whole(candidate: CandidateKernel) -> Cost:
            copies = self(candidate)
            if isinstance(copies, Infeasible):
                return copies
            seconds = cost(candidate)
            return seconds if isinstance(seconds, Infeasible) else seconds + copies

        return whole
