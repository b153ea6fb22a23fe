"""Estimate the cost of a kernel from the speed of a machine, without TVM."""

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass, fields
from functools import cache
from math import nan, prod

from collage_dsl.cost.cost import Cost, Infeasible
from collage_dsl.cost.measurement import Context, Measurement
from collage_dsl.cost.sources import Source
from collage_dsl.cost.store import CostStore
from collage_dsl.cost.traffic import bytes_of
from collage_dsl.graph import (
    CandidateKernel,
    Graph,
    Node,
    OpSet,
    TensorType,
    cores_of,
    members,
    opset,
    tensors,
)

METHOD = 1
"""The version of our way to find and use rates. Rates of another version are not used."""

_NATIVE = "tvm"
"""The backend of targets that name no compiler."""

_VIEWS = ("expand_dims", "flatten", "nn.batch_flatten", "nn.dropout", "reshape", "squeeze")
"""Operators that only change the shape of their operand."""

_PARTS = ("gather_elements", "gather_nd", "strided_slice", "take")
"""Operators that read only as many bytes of their first operand as they write."""


@dataclass(frozen=True, slots=True)
class Rates:
    """
    What one core does with the kernels of one backend: the seconds of a `multiplication` in a
    matrix product or a convolution, of a byte that is `near`, in the caches, and of one that is
    `far`, in memory; and of a kernel with hardly any work, whose code and data are in the caches
    (`launch`) or in memory (`cold`).

    The numbers that are written here are for machines whose own are not known: 30 billion
    multiplications, 20 GB from the caches and 8 GB from memory in a second.
    """

    multiplication: float = 1 / 30e9
    near: float = 1 / 20e9
    far: float = 1 / 8e9
    launch: float = 1e-6
    cold: float = 4e-6


@dataclass(frozen=True, slots=True)
class Work:
    """
    What a kernel has to do: the multiplications of products and convolutions, the bytes that other
    operators take and give, and the bytes that flow in and out: data, and `weights`, which are
    constants of the model. What flows out counts twice, since a store first reads its cache line.
    """

    multiplications: int
    touched: int
    data: int
    weights: int

    @classmethod
    def of(cls, graph: Graph, inside: OpSet) -> "Work":
        calls = [graph.nodes[index] for index in members(inside & graph.calls)]
        flows_in, flows_out = graph.input(inside), graph.exit(inside)
        data = _read(graph, flows_in & ~graph.constants, inside) + 2 * _bytes(graph, flows_out)
        counts = [_multiplications(graph, node) for node in calls]
        others = (node for node, count in zip(calls, counts, strict=True) if not count)
        touched = sum(_touched(graph, node) for node in others)
        weights = _read(graph, flows_in & graph.constants, inside)
        return cls(sum(counts), touched, data, weights)

    def seconds(self, rates: Rates, *, is_warm: bool, has_warm_weights: bool) -> float:
        """
        The roofline: the arithmetic, or what flows in and out if that takes longer. It leaves out
        what a kernel without work takes.
        """
        arithmetic = self.multiplications * rates.multiplication + self.touched * rates.near
        data = self.data * (rates.near if is_warm else rates.far)
        weights = self.weights * (rates.near if has_warm_weights else rates.far)
        return max(arithmetic, data + weights)


def estimate(
    rates: Callable[[str], Rates | None], cache_bytes: int
) -> Callable[[CandidateKernel], Cost]:
    """
    A `CostFunction` by the `rates` of each backend; NaN where a backend has none, where a size is
    not known, and for targets that are no CPU.

    For a target that `runs rarely`, all that flows in and out is in memory. For one that
    `runs often`, it is in the caches, but for weights where those of the model are more than
    `cache_bytes`.
    """

    @cache
    def fits(graph: Graph) -> bool:
        used = (index for index in members(graph.constants) if graph.users_of[index])
        return sum(bytes_of(graph.nodes[index].type) for index in used) <= cache_bytes

    def cost(candidate: CandidateKernel) -> Cost:
        toolchain, graph = candidate.toolchain, candidate.graph
        known = rates(toolchain.compiler or _NATIVE)
        inside = candidate.sub_graph.inside
        if known is None or toolchain.kind != "llvm" or not _is_sized(graph, inside):
            return nan
        is_warm = toolchain.measure.runs == "often"
        work = Work.of(graph, inside).seconds(
            known, is_warm=is_warm, has_warm_weights=is_warm and fits(graph)
        )
        least = known.launch if is_warm else known.cold
        return least + work / cores_of(toolchain.options, 1)

    return cost


def estimates(rates: Callable[[str], Rates | None], cache_bytes: int) -> tuple[Source, Source]:
    """The estimates by the `rates` of this machine. A backend without rates has built-in ones."""
    return (
        Source("analytic", estimate(rates, cache_bytes)),
        Source("analytic (not calibrated)", estimate(lambda backend: Rates(), cache_bytes)),
    )


# Rates in the store: each is a cost, of one unit of work.


def rates_context(machine: str, backend: str, versions: str = "") -> Context:
    """What the rates of a backend on a machine belong to. The `versions` (JSON) are for people."""
    key = hashlib.sha256(json.dumps(["analytic", METHOD, machine, backend]).encode()).hexdigest()
    return Context(key, machine, backend, versions=versions, timed=json.dumps({"analytic": METHOD}))


def keep(store: CostStore, context: Context, rates: Rates) -> None:
    """Keep the rates of a backend in `store`, in place of older ones."""
    store.describe(context)
    for name, seconds in zip(_names(), astuple(rates), strict=True):
        store.put(Measurement(_kernel(name), context.key, f"analytic {name}", seconds))


def kept(store: CostStore, context: Context) -> Rates | None:
    """The rates that `store` has; None if it lacks any."""
    found = [store.get(_kernel(name), context.key) for name in _names()]
    known = [each for each in found if each is not None and not isinstance(each, Infeasible)]
    return Rates(*known) if len(known) == len(found) else None


def _names() -> Iterator[str]:
    return (field.name for field in fields(Rates))


def _kernel(name: str) -> str:
    return f"analytic.{name}"


# The work of one operator.


def _multiplications(graph: Graph, node: Node) -> int:
    """The multiplications of a product, a convolution or an attention; 0 for other operators."""
    if node.op == "nn.attention":
        return _of_attention(graph, node)
    if not (node.op == "matmul" or node.op.startswith("nn.conv")) or len(node.inputs) < 2:
        return 0
    first, second = (_shape(graph.nodes[index]) for index in node.inputs[:2])
    if node.op == "matmul":
        return prod(_shape(node)) * (first[-1] if first else 1)
    # Each weight of a filter is multiplied once for each position of it.
    is_transposed = node.op.endswith("_transpose")
    layout = str(node.attrs.get("kernel_layout", "IOHW" if is_transposed else "OIHW"))
    axis = layout.find("I" if is_transposed else "O")
    filters = second[axis] if 0 <= axis < len(second) else 1
    positions = prod(first if is_transposed else _shape(node))
    return positions * prod(second) // max(filters, 1)


def _of_attention(graph: Graph, node: Node) -> int:
    """The multiplications of the queries with the keys, and of the result with the values."""
    shapes = [_shape(graph.nodes[index]) for index in node.inputs[:3]]
    if len(shapes) < 3 or any(len(shape) != 4 for shape in shapes):
        return 0
    queries, keys, values = shapes
    batch, rows, heads, width = queries
    return batch * rows * heads * keys[1] * (width + values[3])


def _touched(graph: Graph, node: Node) -> int:
    """The bytes that an operator reads and writes. Each window of a pool is counted in full."""
    if node.op in _VIEWS:
        return 0
    given = sum(map(bytes_of, tensors(node.type)))
    window = node.attrs.get("pool_size")
    if isinstance(window, tuple):
        return given * (1 + prod(size for size in window if isinstance(size, int)))
    if node.op in _PARTS:
        return 2 * given
    return given + _bytes(graph, opset(node.inputs) & ~graph.literals)


def _shape(node: Node) -> tuple[int, ...]:
    is_known = isinstance(node.type, TensorType) and node.type.is_static
    return node.tensor.static_shape if is_known else ()


def _read(graph: Graph, nodes: OpSet, inside: OpSet) -> int:
    """The bytes that a kernel reads of `nodes`."""
    whole = _bytes(graph, nodes)
    for index in members(nodes):
        users = graph.users_of[index] & inside
        if all(_is_part_of(graph.nodes[user], index) for user in members(users)):
            spared = _bytes(graph, 1 << index) - _bytes(graph, users)
            whole -= max(spared, 0)
    return whole


def _is_part_of(user: Node, index: int) -> bool:
    return user.op in _PARTS and user.inputs[0] == index


def _bytes(graph: Graph, nodes: OpSet) -> int:
    return sum(
        bytes_of(type_) for index in members(nodes) for type_ in tensors(graph.nodes[index].type)
    )


def _is_sized(graph: Graph, inside: OpSet) -> bool:
    """Whether all sizes in a kernel, and of its inputs, are known."""
    used = members(inside | graph.input(inside))
    return all(type_.is_static for index in used for type_ in tensors(graph.nodes[index].type))
