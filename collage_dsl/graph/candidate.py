"""Sub-graphs, and candidates: a sub-graph together with the toolchain that would run it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from collage_dsl.graph.graph import Graph
from collage_dsl.graph.measuring import Measuring
from collage_dsl.graph.opset import OpSet, first, members, spread

Option = bool | int | float | str
"""The value of a target option, such as `num_cores: 2`."""


@dataclass(frozen=True, slots=True)
class Composite:
    """
    Nodes of a sub-graph that become an inner function with `Composite = label`, in which `parts`
    of them become inner functions again.
    """

    label: str
    inside: OpSet
    constants: OpSet = 0
    parts: tuple["Composite", ...] = ()

    def __hash__(self) -> int:
        return hash((self.label, spread(self.inside)))

    def moved(self, source: Graph, target: Graph) -> "Composite":
        """The same of another graph, in which the nodes have the same names."""
        return Composite(
            self.label,
            _moved(self.inside, source, target),
            _moved(self.constants, source, target),
            tuple(part.moved(source, target) for part in self.parts),
        )


def _moved(nodes: OpSet, source: Graph, target: Graph) -> OpSet:
    return target.set_of(*source.names(nodes))


@dataclass(frozen=True, slots=True)
class SubGraph:
    """
    A set of calls, tuples and projections, with the constants bound inside.

    Two sub-graphs of the same nodes with other composites are different: they
    may be run by different functions of a library. Composites are inside, and disjoint.
    """

    inside: OpSet
    constants: OpSet = 0
    composites: tuple[Composite, ...] = ()
    _hash: int = field(init=False, repr=False, compare=False)
    """Asked for often, and dear where the graph is large."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((spread(self.inside), len(self.composites))))
        left = self.inside
        for composite in self.composites:
            if composite.inside & ~left:
                raise ValueError(_misplaced(composite, self))
            left &= ~composite.inside

    def __hash__(self) -> int:
        return self._hash

    def __or__(self, other: "SubGraph") -> "SubGraph":
        """The union of the two, which are disjoint; composites stay as they are."""
        composites = (*self.composites, *other.composites)
        if len(composites) > 1:
            composites = tuple(sorted(composites, key=lambda c: c.inside))
        return SubGraph(self.inside | other.inside, self.constants | other.constants, composites)

    def labelled(self, label: str) -> "SubGraph":
        """The same nodes as one composite, with the composites there were inside it."""
        tag = Composite(label, self.inside, self.constants, self.composites)
        return SubGraph(self.inside, self.constants, (tag,))

    def moved(self, source: Graph, target: Graph) -> "SubGraph":
        """The same of another graph, in which the nodes have the same names."""
        return SubGraph(
            _moved(self.inside, source, target),
            _moved(self.constants, source, target),
            tuple(composite.moved(source, target) for composite in self.composites),
        )

    @property
    def order(self) -> tuple[int, OpSet, tuple[str, ...], OpSet]:
        """Sorts sub-graphs by first node, then nodes, composites and bound constants."""
        labels = tuple(composite.label for composite in self.composites)
        return (first(self.inside), self.inside, labels, self.constants)


def _misplaced(wrong: Composite, sub_graph: SubGraph) -> str:
    """What is wrong with a composite that is not inside, or not disjoint with those before it."""
    if wrong.inside & ~sub_graph.inside:
        return f"composite `{wrong.label}` has a node outside of its sub-graph"
    other = next(each for each in sub_graph.composites if each.inside & wrong.inside)
    return f"composites `{other.label}` and `{wrong.label}` share a node"


@dataclass(frozen=True, slots=True)
class Toolchain:
    """
    Who runs a kernel: a `target` block of a spec.

    `kind` is a TVM target kind ("llvm"); `compiler` names a library backend, or is None
    where TVM itself generates the code; `options` are the target kind's. `priority` decides
    between plans of the same cost; `measure` says how kernels are timed.
    """

    name: str
    kind: str = "llvm"
    compiler: str | None = None
    options: Mapping[str, Option] = field(default_factory=dict, hash=False)
    priority: int = 0
    measure: Measuring = field(default_factory=Measuring)


def libraries(toolchain: Toolchain) -> tuple[str, ...]:
    """The libraries that native kernels of a toolchain are linked to: its option `libs`."""
    said: object = toolchain.options.get("libs", ())
    return tuple(said) if isinstance(said, list | tuple) else (str(said),)


@dataclass(frozen=True, slots=True)
class CandidateKernel:
    """A sub-graph of `graph` that `toolchain` could run as one kernel."""

    graph: Graph = field(repr=False)
    sub_graph: SubGraph
    toolchain: Toolchain

    def __hash__(self) -> int:
        return hash((self.sub_graph, self.toolchain.name))

    @property
    def nodes(self) -> frozenset[str]:
        """The names of the calls, tuples and projections inside."""
        return self.graph.names(self.sub_graph.inside)

    @property
    def constants(self) -> frozenset[str]:
        """The names of the constants bound inside."""
        return self.graph.names(self.sub_graph.constants)

    @property
    def target(self) -> str:
        """The name of the target block whose rules proposed it."""
        return self.toolchain.name

    @property
    def label(self) -> str:
        """Composites and operators in graph order: `onednn.conv_block+nn.max_pool2d`."""
        return label_of(self.graph, self.sub_graph)


def label_of(graph: Graph, sub_graph: SubGraph) -> str:
    """The labels of the composites, and the operators outside them, in graph order."""
    parts = {first(composite.inside): composite.label for composite in sub_graph.composites}
    tagged = 0
    for composite in sub_graph.composites:
        tagged |= composite.inside
    for index in members(sub_graph.inside & graph.calls & ~tagged):
        parts[index] = graph.nodes[index].op
    return "+".join(parts[index] for index in sorted(parts)) or "tuple"
