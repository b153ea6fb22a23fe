"""A candidate is a sub-graph and the toolchain that would run it as one kernel."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from operator import attrgetter

from collage_dsl.graph.graph import Graph
from collage_dsl.graph.measuring import Measuring
from collage_dsl.graph.opset import (
    Compact,
    OpSet,
    compact,
    expanded,
    first,
    joined,
    last,
    members,
    members_of,
    union_of,
)
from collage_dsl.graph.tuning import Record, Tuning
from collage_dsl.graph.variants import Variants, common

Option = bool | int | float | str | tuple[str, ...]
"""The value of a target option, such as `num_cores: 2` or `libs: ["cudnn", "cublas"]`."""


def cores_of(options: Mapping[str, Option], usual: int = 1) -> int:
    """How many cores a kernel may use: the option `num_cores`, else `usual`."""
    said = options.get("num_cores", usual)
    return usual if isinstance(said, tuple) else int(said)


@dataclass(frozen=True, slots=True, init=False)
class Composite:
    """
    Nodes of a sub-graph that become an inner function with `Composite = label`. Its `parts`
    become inner functions of that function.
    """

    label: str
    _inside: Compact
    _constants: Compact
    parts: tuple["Composite", ...]

    def __init__(
        self,
        label: str,
        inside: OpSet,
        constants: OpSet = 0,
        parts: tuple["Composite", ...] = (),
    ) -> None:
        self._set(label, compact(inside), compact(constants), parts)

    def _set(
        self, label: str, inside: Compact, constants: Compact, parts: tuple["Composite", ...]
    ) -> None:
        set_field = partial(object.__setattr__, self)
        set_field("label", label)
        set_field("_inside", inside)
        set_field("_constants", constants)
        set_field("parts", parts)

    @staticmethod
    def of(sub_graph: "SubGraph", label: str) -> "Composite":
        """All of `sub_graph`, with its composites as parts."""
        made = object.__new__(Composite)
        made._set(label, sub_graph.nodes, sub_graph.bound, sub_graph.composites)
        return made

    @property
    def inside(self) -> OpSet:
        return expanded(self._inside)

    @property
    def last(self) -> int:
        """The last node inside, by which composites are sorted."""
        start, nodes = self._inside
        return start + last(nodes)

    @property
    def constants(self) -> OpSet:
        return expanded(self._constants)

    def __hash__(self) -> int:
        return hash((self.label, self._inside))

    def moved(self, source: Graph, target: Graph) -> "Composite":
        """The same composite in `target`, where the nodes have the same names."""
        return Composite(
            self.label,
            _moved(self.inside, source, target),
            _moved(self.constants, source, target),
            tuple(part.moved(source, target) for part in self.parts),
        )


def _moved(nodes: OpSet, source: Graph, target: Graph) -> OpSet:
    return target.set_of(*source.names(nodes))


@dataclass(frozen=True, slots=True, init=False)
class SubGraph:
    """
    A set of calls, tuples and projections, with the constants bound inside.

    Two sub-graphs of the same nodes but with different composites are different: different
    functions of a library may run them. Composites lie inside and are disjoint. Those of a
    candidate have no `variants`, because its toolchain has them. Its sets are kept compact: a
    large graph has many candidates, and each has few nodes.
    """

    nodes: Compact
    """The nodes inside."""
    bound: Compact
    """The constants."""
    composites: tuple[Composite, ...]
    variants: Variants
    _hash: int = field(repr=False, compare=False)
    """Kept because it is needed often."""

    def __init__(
        self,
        inside: OpSet,
        constants: OpSet = 0,
        composites: tuple[Composite, ...] = (),
        variants: Variants = None,
    ) -> None:
        self._set(compact(inside), compact(constants), composites, variants)
        left = inside
        for composite in composites:
            part = composite.inside
            if part & left != part:
                raise ValueError(_misplaced(composite, self))
            left ^= part

    def _set(
        self, nodes: Compact, bound: Compact, composites: tuple[Composite, ...], variants: Variants
    ) -> None:
        set_field = partial(object.__setattr__, self)
        set_field("nodes", nodes)
        set_field("bound", bound)
        set_field("composites", composites)
        set_field("variants", variants)
        set_field("_hash", hash((nodes, len(composites))))

    def _with(
        self,
        composites: tuple[Composite, ...],
        variants: Variants,
        *,
        nodes: Compact | None = None,
        bound: Compact | None = None,
    ) -> "SubGraph":
        """The same with other composites and variants, and other nodes where they are given."""
        made = object.__new__(SubGraph)
        made._set(nodes or self.nodes, bound or self.bound, composites, variants)
        return made

    @property
    def inside(self) -> OpSet:
        return expanded(self.nodes)

    @property
    def indexes(self) -> Sequence[int]:
        """The nodes inside, ascending."""
        return members_of(self.nodes)

    @property
    def constants(self) -> OpSet:
        return expanded(self.bound)

    def __hash__(self) -> int:
        return self._hash

    def __or__(self, other: "SubGraph") -> "SubGraph":
        """
        The union of two disjoint sub-graphs, with the composites of both, for the variants that
        both allow.
        """
        composites = (*self.composites, *other.composites)
        if len(composites) > 1:
            composites = tuple(sorted(composites, key=attrgetter("last")))
        nodes, bound = joined(self.nodes, other.nodes), joined(self.bound, other.bound)
        variants = common(self.variants, other.variants)
        return self._with(composites, variants, nodes=nodes, bound=bound)

    def overlaps(self, other: "SubGraph") -> bool:
        """Whether a node is inside both."""
        (start, nodes), (other_start, others) = self.nodes, other.nodes
        gap = other_start - start
        return bool(nodes >> gap & others if gap >= 0 else nodes & others >> -gap)

    @property
    def has_variant(self) -> bool:
        """Whether any variant may compute it."""
        return self.variants is None or bool(self.variants)

    def only_by(self, variants: Variants) -> "SubGraph":
        """The same nodes for other variants."""
        if variants == self.variants:
            return self
        return self._with(self.composites, variants)

    def labelled(self, label: str) -> "SubGraph":
        """The same nodes as one composite, which contains the earlier composites."""
        return self._with((Composite.of(self, label),), self.variants)

    def moved(self, source: Graph, target: Graph) -> "SubGraph":
        """The same sub-graph in `target`, where the nodes have the same names."""
        return SubGraph(
            _moved(self.inside, source, target),
            _moved(self.constants, source, target),
            tuple(composite.moved(source, target) for composite in self.composites),
            self.variants,
        )

    @property
    def order(self) -> tuple[Compact, tuple[str, ...], Compact]:
        """A sort key: by first node, then nodes, composites and bound constants."""
        labels = tuple(composite.label for composite in self.composites)
        return (self.nodes, labels, self.bound)


def _misplaced(wrong: Composite, sub_graph: SubGraph) -> str:
    """The error text for a composite that is not inside, or overlaps an earlier composite."""
    if wrong.inside & ~sub_graph.inside:
        return f"composite `{wrong.label}` has a node outside of its sub-graph"
    other = next(each for each in sub_graph.composites if each.inside & wrong.inside)
    return f"composites `{other.label}` and `{wrong.label}` share a node"


@dataclass(frozen=True, slots=True)
class Toolchain:
    """
    What runs a kernel: a `target` block of a spec.

    `kind` is a TVM target kind ("llvm") and `options` are its options. `compiler` names a library
    backend, or is None if TVM itself generates the code. `priority` decides between plans of equal
    cost; `measure` says how kernels are timed. `variants` are those of the backend's algorithms
    that may compute a kernel; empty for any. `tune` says how kernels are tuned. No spec has a
    `record`, which is the schedule of the variant `tuned` for one kernel.
    """

    name: str
    kind: str = "llvm"
    compiler: str | None = None
    options: Mapping[str, Option] = field(default_factory=dict, hash=False)
    priority: int = 0
    measure: Measuring = field(default_factory=Measuring)
    variants: tuple[str, ...] = ()
    tune: Tuning = field(default_factory=Tuning)
    record: Record | None = field(default=None, repr=False, metadata={"in_spec": False})

    @property
    def variant(self) -> str:
        """The only variant that may compute a kernel; empty if there are several or any."""
        return self.variants[0] if len(self.variants) == 1 else ""

    def by(self, *variants: str) -> "Toolchain":
        """The same for these variants, or for any, without a record of tuning."""
        return replace(self, variants=variants, record=None)

    def allows(self, variants: Variants) -> bool:
        """Whether it allows at least one of `variants`."""
        return variants is None or not variants.isdisjoint(self.variants or variants)

    def only_by(self, variants: Variants) -> "Toolchain":
        """The same for those of `variants` that it allows, of which there is at least one."""
        if variants is None:
            return self
        names = self.variants or sorted(variants)
        return replace(self, variants=tuple(name for name in names if name in variants))


def libraries(toolchain: Toolchain) -> tuple[str, ...]:
    """The libraries that native kernels of a toolchain are linked to: its option `libs`."""
    return items_of(toolchain.options, "libs")


def items_of(options: Mapping[str, Option], name: str) -> tuple[str, ...]:
    """The items of an option that is a list, or one item without brackets; empty if not there."""
    said: object = options.get(name, ())
    return tuple(said) if isinstance(said, list | tuple) else (str(said),)


def is_fast_math(toolchain: Toolchain) -> bool:
    """
    Whether TVM makes the kernels of a toolchain without the rules of IEEE 754, as its option
    `fast_math`, or one of those that begin so, says.
    """
    named = (value for name, value in toolchain.options.items() if name.startswith("fast_math"))
    return toolchain.compiler is None and any(named)


@dataclass(frozen=True, slots=True)
class CandidateKernel:
    """A sub-graph of `graph` that `toolchain` could run as one kernel."""

    graph: Graph = field(repr=False)
    sub_graph: SubGraph
    toolchain: Toolchain
    _hash: int = field(init=False, repr=False, compare=False)
    """Kept because a search asks for it many times."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.sub_graph, self.toolchain.name)))

    def __hash__(self) -> int:
        return self._hash

    @property
    def calls(self) -> OpSet:
        """The operator calls inside."""
        return self.sub_graph.inside & self.graph.calls

    @property
    def call_indexes(self) -> Sequence[int]:
        """The operator calls inside, ascending."""
        nodes = self.graph.nodes
        return [index for index in self.sub_graph.indexes if nodes[index].is_call]

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


def covered(candidates: Iterable[CandidateKernel]) -> OpSet:
    """The nodes inside any of `candidates`."""
    return union_of(each.sub_graph.inside for each in candidates)


def label_of(graph: Graph, sub_graph: SubGraph) -> str:
    """The labels of the composites and the operators outside them, in graph order."""
    parts = {first(composite.inside): composite.label for composite in sub_graph.composites}
    tagged = union_of(composite.inside for composite in sub_graph.composites)
    for index in members(sub_graph.inside & graph.calls & ~tagged):
        parts[index] = graph.nodes[index].op
    return "+".join(parts[index] for index in sorted(parts)) or "tuple"
