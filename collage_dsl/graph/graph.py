"""The dataflow graph of one function, and the facts of a sub-graph: entry, exit, depth, kind."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType

from collage_dsl.graph.device import Device
from collage_dsl.graph.opset import (
    NOTHING,
    OpSet,
    OpSets,
    compact_of,
    joined,
    last,
    members,
    opset,
)
from collage_dsl.graph.origin import Origin
from collage_dsl.graph.types import Form, Kind, TensorType, Type

Attribute = bool | int | float | str | tuple["Attribute", ...] | None
"""The value of an operator's attribute."""

_NEAR = 1024
"""So many nodes are near a node: the node itself and those after it in the graph's order."""


@dataclass(frozen=True, slots=True)
class Node:
    """
    One value of a graph.

    `inputs` are indexes of earlier nodes. `op` is the operator of a call, without the
    `relax.` prefix. `value` is a constant's array (None if only its type is known), a
    literal's value, a projection's index, or the PrimFunc that a `call_tir` calls. `block`
    is the number of the dataflow block; `device` is where a call is planned to run. A node of the
    form INPUT has inputs itself if something other than an operator computes it from them.
    """

    name: str
    form: Form
    type: Type
    inputs: tuple[int, ...] = ()
    op: str = ""
    attrs: Mapping[str, Attribute] = field(default_factory=dict, hash=False)
    kind: Kind = Kind.INJECTIVE
    value: object = field(default=None, compare=False, repr=False)
    block: int = 0
    device: Device | None = None

    @property
    def is_call(self) -> bool:
        return self.form is Form.CALL

    @property
    def tensor(self) -> TensorType:
        """The type, which must be a tensor type."""
        assert isinstance(self.type, TensorType), f"{self.name} is a {self.type}"
        return self.type


class Graph:
    """
    The nodes of one function. Each comes after its inputs.

    Every set of nodes is an `OpSet` over the indexes of `nodes`. Parameters, constants and
    literals are nodes too, but never *inside* a sub-graph: a sub-graph is a set of calls,
    tuples and projections. A graph is immutable.

    `output_names` are the names of the outputs, by default those of their nodes. They differ if
    one node is two outputs, or if an output is a parameter or a constant.
    """

    onnx: Mapping[str, tuple[Origin, ...]] = MappingProxyType({})
    """The ONNX nodes that computed nodes came from, by their names; only `frontend` sets it."""

    source: object = None
    """The Relax bindings that the graph is a view of; only `frontend` sets and reads it."""

    def __init__(
        self,
        nodes: Iterable[Node],
        outputs: Iterable[int],
        *,
        name: str = "main",
        returns_tuple: bool | None = None,
        output_names: Iterable[str] | None = None,
    ) -> None:
        self.nodes = tuple(nodes)
        self.outputs = tuple(outputs)
        names = (self.nodes[i].name for i in self.outputs) if output_names is None else output_names
        self.output_names = tuple(names)
        self.name = name
        self.returns_tuple = len(self.outputs) != 1 if returns_tuple is None else returns_tuple
        self._index = {node.name: index for index, node in enumerate(self.nodes)}
        if len(self._index) != len(self.nodes):
            raise ValueError(f"two nodes of graph `{name}` have the same name")
        if len(self.output_names) != len(self.outputs):
            raise ValueError(f"graph `{name}` has not as many outputs as names for them")
        for index, node in enumerate(self.nodes):
            if node.inputs and max(node.inputs) >= index:
                raise ValueError(f"node `{node.name}` comes before one of its inputs")

    def __len__(self) -> int:
        return len(self.nodes)

    def __repr__(self) -> str:
        return f"<Graph {self.name}: {self.calls.bit_count()} operator calls>"

    def index(self, name: str) -> int:
        """The index of the node `name`. Raises KeyError if there is none."""
        return self._index[name]

    def at(self, name: str) -> OpSet:
        """The node `name`, or an output of that name; else what came from the ONNX node `name`."""
        if name in self._index:
            return 1 << self._index[name]
        if name in self.output_names:
            return 1 << self.outputs[self.output_names.index(name)]
        found = (node for node, came in self.onnx.items() if any(o.name == name for o in came))
        return self.set_of(*found) if name else 0

    @property
    def known_names(self) -> tuple[str, ...]:
        """The names that `at` knows, each once."""
        came = (origin.name for origins in self.onnx.values() for origin in origins)
        names = [*self._index, *self.output_names, *came]
        return tuple(name for name in dict.fromkeys(names) if name)

    def origins(self, nodes: OpSet) -> tuple[Origin, ...]:
        """The ONNX nodes that `nodes` came from, in order, each once."""
        came = (self.onnx.get(self.nodes[index].name, ()) for index in members(nodes))
        return tuple(dict.fromkeys(origin for origins in came for origin in origins))

    def names(self, nodes: OpSet) -> frozenset[str]:
        return frozenset(self.nodes[index].name for index in members(nodes))

    def set_of(self, *names: str) -> OpSet:
        """The set of the nodes with these names."""
        return opset(self._index[name] for name in names)

    # Sets of nodes by form.

    def _of(self, form: Form) -> OpSet:
        return opset(i for i, node in enumerate(self.nodes) if node.form is form)

    @cached_property
    def calls(self) -> OpSet:
        return self._of(Form.CALL)

    @cached_property
    def tuples(self) -> OpSet:
        return self._of(Form.TUPLE)

    @cached_property
    def projections(self) -> OpSet:
        return self._of(Form.PROJECTION)

    @cached_property
    def free(self) -> OpSet:
        """Tuples and projections: they need no kernel, but a kernel may contain them."""
        return self.tuples | self.projections

    @cached_property
    def computed(self) -> OpSet:
        """Everything that can be inside a sub-graph."""
        return self.calls | self.free

    @cached_property
    def constants(self) -> OpSet:
        return self._of(Form.CONSTANT)

    @cached_property
    def literals(self) -> OpSet:
        return self._of(Form.LITERAL)

    @cached_property
    def parameters(self) -> OpSet:
        return self._of(Form.INPUT)

    # Edges.

    @cached_property
    def inputs_of(self) -> OpSets:
        """For each node, the nodes that flow directly into it."""
        return OpSets(compact_of(node.inputs) for node in self.nodes)

    @cached_property
    def users_of(self) -> OpSets:
        """For each node, the nodes that it flows directly into."""
        users: list[list[int]] = [[] for _ in self.nodes]
        for index, node in enumerate(self.nodes):
            for operand in node.inputs:
                users[operand].append(index)
        return OpSets(map(compact_of, users))

    @cached_property
    def downstream_of(self) -> OpSets:
        """For each node, all nodes that it flows into, directly or not."""
        below = [NOTHING] * len(self.nodes)
        for index in reversed(range(len(self.nodes))):
            for user in members(self.users_of[index]):
                below[index] = joined(below[index], joined((user, 1), below[user]))
        return OpSets(below)

    @cached_property
    def _near_downstream_of(self) -> tuple[OpSet, ...]:
        """
        `downstream_of`, but only the near nodes, and counted from the node itself. It takes memory
        in proportion to the nodes, and not to their square.
        """
        below = [0] * len(self.nodes)
        for index in reversed(range(len(self.nodes))):
            found = 0
            for user in self.users_of.indexes(index):
                if (gap := user - index) < _NEAR:
                    found |= (1 | below[user]) << gap
            below[index] = found & ((1 << _NEAR) - 1)
        return tuple(below)

    @cached_property
    def upstream_of(self) -> OpSets:
        """For each node, all nodes that flow into it, directly or not."""
        above = [NOTHING] * len(self.nodes)
        for index, inputs in enumerate(self.inputs_of):
            for operand in members(inputs):
                above[index] = joined(above[index], joined((operand, 1), above[operand]))
        return OpSets(above)

    @cached_property
    def depth_first(self) -> tuple[int, ...]:
        """All nodes in depth-first order, each after its inputs."""
        order: list[int] = []
        seen: set[int] = set()
        for root in (*self.outputs, *range(len(self.nodes))):
            pending = [(root, False)]
            while pending:
                index, inputs_done = pending.pop()
                if inputs_done:
                    order.append(index)
                elif index not in seen:
                    seen.add(index)
                    pending.append((index, True))
                    pending.extend((i, False) for i in reversed(self.nodes[index].inputs))
        return tuple(order)

    @cached_property
    def _returned(self) -> frozenset[int]:
        return frozenset(self.outputs)

    @cached_property
    def results(self) -> OpSet:
        """The nodes that the function returns."""
        return opset(self.outputs)

    # Facts of a sub-graph.

    def entry(self, inside: OpSet) -> OpSet:
        """Inside nodes with an input outside that is not a constant or literal."""
        outside = ~(inside | self.constants | self.literals)
        return opset(i for i in members(inside) if self.inputs_of[i] & outside)

    def exit(self, inside: OpSet) -> OpSet:
        """Inside nodes that a node outside uses or the function returns."""
        return opset(self.exits(members(inside), inside))

    def exits(self, indexes: Iterable[int], inside: OpSet) -> list[int]:
        """Those of some nodes `inside` that a node outside uses or the function returns."""
        return [i for i in indexes if self.is_needed_outside(i, inside)]

    def is_needed_outside(self, index: int, inside: OpSet) -> bool:
        """Whether a node outside uses node `index`, or the function returns it."""
        return index in self._returned or not self.users_of.is_within(index, inside)

    def input(self, inside: OpSet) -> OpSet:
        """Nodes outside that flow directly inside, including constants and literals."""
        flows_in = self.inputs_of.union(members(inside))
        return flows_in ^ flows_in & inside

    def output(self, inside: OpSet) -> OpSet:
        """Nodes outside that inside nodes flow directly into."""
        flows_out = self.users_of.union(members(inside))
        return flows_out ^ flows_out & inside

    def downstream(self, inside: OpSet) -> OpSet:
        """All nodes that inside nodes flow into, directly or not; some may be inside too."""
        return self.downstream_of.union(members(inside))

    def taps(self, exits: Iterable[int], inside: OpSet) -> list[int]:
        """The `exits` of `inside` that an inside node also uses."""
        return [i for i in exits if self.users_of.meets(i, inside)]

    def depth(self, inside: OpSet) -> int:
        """The longest path inside, counted in operator calls."""
        depths: dict[int, int] = {}
        for i in members(inside):
            above = 0
            for j in members(self.inputs_of[i] & inside):
                above = max(above, depths[j])
            depths[i] = above + (self.calls >> i & 1)
        return max(depths.values(), default=0)

    def is_deeper(self, inside: OpSet, most: int) -> bool:
        """Whether a path inside has more than `most` operator calls."""
        return inside.bit_count() > most and self.depth(inside) > most

    def kind(self, inside: OpSet) -> Kind:
        """The greatest kind among the inside nodes."""
        return max((self.nodes[i].kind for i in members(inside)), default=Kind.ELEMENTWISE)

    def is_convex(self, inside: OpSet, indexes: Iterable[int] | None = None) -> bool:
        """Whether no path leaves `inside` and comes back; `indexes` are its members, if known."""
        known = members(inside) if indexes is None else indexes
        users = {user for i in known for user in self.users_of.indexes(i)}
        return not self.leads_back((i for i in users if not inside >> i & 1), inside)

    def leads_back(self, outputs: Iterable[int], inside: OpSet) -> bool:
        """Whether a path from the `outputs` of `inside` comes back."""
        end = inside.bit_length()  # what comes after all of `inside` does not flow into it
        return any(i < end and self._leads_to(i, inside) for i in outputs)

    def _leads_to(self, index: int, inside: OpSet) -> bool:
        """Whether a node flows into one of `inside`, directly or not."""
        ahead = inside >> index
        if ahead.bit_length() <= _NEAR:
            return self._near_downstream_of[index] & ahead != 0
        return self.downstream_of.meets(index, inside)

    def blocks(self, inside: OpSet) -> frozenset[int]:
        """The dataflow blocks that `inside` touches."""
        return frozenset(self.nodes[i].block for i in members(inside))

    @cached_property
    def planned(self) -> Mapping[Device, OpSet]:
        """The nodes that are planned for each device; empty if none are."""
        found: dict[Device, OpSet] = {}
        for index, node in enumerate(self.nodes):
            if node.device is not None:
                found[node.device] = found.get(node.device, 0) | 1 << index
        return found

    def devices(self, inside: OpSet) -> frozenset[Device]:
        """The devices that nodes of `inside` are planned for."""
        return frozenset(device for device, nodes in self.planned.items() if nodes & inside)

    def on_one_device(self, inside: OpSet) -> bool:
        """Whether nodes of `inside` are planned for no more than one device."""
        return not self.planned or len(self.devices(inside)) < 2

    def is_together(self, inside: OpSet) -> bool:
        """Whether `inside` is in one dataflow block, and planned for no more than one device."""
        return self.in_one_block(inside) and self.on_one_device(inside)

    def in_one_block(self, inside: OpSet) -> bool:
        """Whether `inside` is not empty, and in one dataflow block."""
        if not inside or len(self._block_of) == 1:
            return inside != 0
        block = self._block_of[self.nodes[last(inside)].block]
        return inside & block == inside

    @cached_property
    def _block_of(self) -> Mapping[int, OpSet]:
        """The nodes of each dataflow block."""
        blocks: dict[int, OpSet] = {}
        for index, node in enumerate(self.nodes):
            blocks[node.block] = blocks.get(node.block, 0) | 1 << index
        return blocks

    def operators(self, inside: OpSet) -> tuple[str, ...]:
        """The operators of the calls inside, in graph order."""
        return tuple(self.nodes[i].op for i in members(inside & self.calls))
