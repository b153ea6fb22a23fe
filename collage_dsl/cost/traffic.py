"""A lower bound of the bytes that a kernel reads and writes, whatever its algorithm."""

from collections.abc import Iterator
from operator import gt

from collage_dsl.graph import Form, Graph, Kind, Node, OpSet, TensorType, Type, members
from collage_dsl.graph.operators import operators

PRODUCTS = ("nn.conv1d", "nn.conv2d", "nn.conv3d", "matmul")

_CONVOLUTIONS = PRODUCTS[:3]
_POOLS = tuple(f"nn.{how}_pool{rank}d" for how in ("avg", "max") for rank in (1, 2, 3))
_OF_WHOLE_DATA = (
    "nn.adaptive_avg_pool2d",
    "nn.batch_norm",
    "nn.group_norm",
    "nn.instance_norm",
    "nn.layer_norm",
    "nn.log_softmax",
    "nn.rms_norm",
    "nn.softmax",
    *("argmax", "argmin", "max", "mean", "min", "prod", "std", "sum", "variance"),
)
_NOT_OF_ALL = (
    *("eye_like", "full_like", "ones_like", "zeros_like", "tril", "triu", "where", "one_hot"),
    *("astype", "broadcast_to", "expand_dims", "nn.dropout", "squeeze", "strided_slice"),
)
"""Elementwise by kind, but an operand may be read only in part, or be returned unchanged."""


def is_elementwise(node: Node) -> bool:
    """
    Whether `node` calls an operator that is known to need each element of its operands and to
    compute each element of its result.
    """
    is_known = node.op in operators() and node.op not in _NOT_OF_ALL
    return is_known and node.kind <= Kind.BROADCAST


def moved_bytes(graph: Graph, inside: OpSet, needed: OpSet) -> int:
    """
    The bytes that a kernel reads of its inputs, each once, and twice the bytes that it writes.

    A write counts twice because it first reads its cache line. A concatenation moves nothing: other
    kernels may write where its result is. `needed` are the calls in the kernel of which every
    element affects a result.
    """
    read: dict[int, int] = {}
    written = 0
    exits = graph.exit(inside)
    for index in members(needed):
        node = graph.nodes[index]
        if not _moves_all(node):
            continue
        if exits >> index & 1:
            written += 2 * bytes_of(node.type)
        for operand, least in _operands_read(graph, node):
            if not inside >> operand & 1:
                read[operand] = max(read.get(operand, 0), least)
    return sum(read.values()) + written


def bytes_of(type_: Type) -> int:
    """The bytes of a tensor; 0 if the number is unknown."""
    return (type_.bytes or 0) if isinstance(type_, TensorType) else 0


def _moves_all(node: Node) -> bool:
    return is_elementwise(node) or node.op in (*PRODUCTS, *_POOLS, *_OF_WHOLE_DATA)


def _operands_read(graph: Graph, node: Node) -> Iterator[tuple[int, int]]:
    """The operands that are read, each with the least number of bytes read."""
    for position, operand in enumerate(node.inputs):
        if position == 0:
            first = graph.nodes[operand]
            for each in first.inputs if first.form is Form.TUPLE else (operand,):
                if not graph.constants >> each & 1:
                    yield each, _data_read(graph, node, graph.nodes[each].type)
        elif node.op in PRODUCTS or (is_elementwise(node) and not graph.constants >> operand & 1):
            yield operand, bytes_of(graph.nodes[operand].type)


def _data_read(graph: Graph, node: Node, data: Type) -> int:
    """The least number of bytes that `node` reads of `data`, its first operand or a field of it."""
    if node.op in _POOLS:
        windows = _numbers(node, "pool_size")
    elif node.op in _CONVOLUTIONS:
        windows = _kernel(node, graph.nodes[node.inputs[1]].type)
    else:
        return bytes_of(data)
    strides, dilation = _numbers(node, "strides"), _numbers(node, "dilation")
    has_gaps = any(map(gt, strides, windows)) or any(step > 1 for step in dilation)
    if has_gaps or not windows or not isinstance(data, TensorType):
        return 0
    return _covered(node, data, windows)


def _covered(node: Node, data: TensorType, windows: tuple[int, ...]) -> int:
    """The bytes of `data` that windows without gaps cover, without what may be padding."""
    layout = str(node.attrs.get("data_layout", node.attrs.get("layout", "")))
    padding, strides = _numbers(node, "padding"), _numbers(node, "strides")
    axes = [layout.find(axis) for axis in "DHW" if axis in layout]
    result, covered = node.type, bytes_of(data)
    if not isinstance(result, TensorType) or not result.is_static or not covered:
        return 0
    if node.attrs.get("out_layout") not in ("", None, layout):
        return 0
    for at, axis in enumerate(axes):
        steps, length = result.static_shape[axis], data.static_shape[axis]
        reached = (steps - 1) * strides[at] + windows[at] - padding[at] - padding[at + len(axes)]
        covered = covered * min(max(reached, 0), length) // length
    return covered


def _numbers(node: Node, name: str) -> tuple[int, ...]:
    value = node.attrs.get(name)
    values = value if isinstance(value, tuple) else ()
    return tuple(each for each in values if isinstance(each, int))


def _kernel(node: Node, weight: Type) -> tuple[int, ...]:
    layout = str(node.attrs.get("kernel_layout", ""))
    if not isinstance(weight, TensorType) or not weight.is_static:
        return ()
    return tuple(weight.static_shape[layout.find(axis)] for axis in "DHW" if axis in layout)
