"""What the sizes of dimensions with names must fulfil: operators of a graph need it."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random

from collage_dsl.graph.graph import Graph, Node
from collage_dsl.graph.opset import members
from collage_dsl.graph.origin import Origin
from collage_dsl.graph.sizes import UNKNOWN, Sizes, names_in, size_of
from collage_dsl.graph.types import Dim, TensorType, tensors

Dims = tuple[Dim, ...]
Need = tuple[Dim, bool, Dim]
"""Two sizes; whether they must be equal, or else the first at least as large as the second."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """
    Two sizes that must be equal, or else (`is_equal` is False) the first must be at least as large
    as the second, because of the operator that `node` says.
    """

    left: int | str
    right: int | str
    is_equal: bool
    node: str

    @property
    def names(self) -> frozenset[str]:
        return names_in(self.left) | names_in(self.right)

    def holds(self, sizes: Sizes) -> bool:
        """Whether it does at these sizes, which have all of its names."""
        left, right = size_of(self.left, sizes), size_of(self.right, sizes)
        if isinstance(left, str) or isinstance(right, str):
            return True
        return left == right if self.is_equal else left >= right

    def __str__(self) -> str:
        return f"{self.left} {'==' if self.is_equal else '>='} {self.right}"


def requirements_of(graph: Graph) -> tuple[Requirement, ...]:
    """
    The requirements of the operators of `graph`, each once, without those that always hold. TVM
    checks sizes that are numbers as it infers types; of others its kernels take for granted that
    they fit, and read and write beside a tensor where they do not.
    """
    found: dict[tuple[Dim, bool, Dim], Requirement] = {}
    for index in members(graph.calls):
        node = graph.nodes[index]
        operands = [graph.nodes[i] for i in node.inputs]
        origins = graph.origins(1 << index)
        needs = _same_dims if _is_joined(node, origins) else _needs
        for need in (*needs(node, operands), *_first_place(graph, node, origins)):
            left, is_equal, right = need
            if need not in found and names_in(left) | names_in(right):
                named = f"the {origins[-1].op} node `{origins[-1].name}`" if origins else ""
                called = named if origins and origins[-1].name else f"`{node.name}` ({node.op})"
                found[need] = Requirement(left, right, is_equal, called)
    return tuple(each for each in found.values() if not _always_holds(each))


def known_sizes(requirements: Iterable[Requirement]) -> dict[str, Dim]:
    """
    The names for which the requirements leave one number, and those that stand for the same size as
    another name, which is given instead.
    """
    found: dict[str, Dim] = {}
    for each in requirements:
        names = sorted(each.names - found.keys())
        if not each.is_equal or len(names) != len(each.names):
            continue
        if len(names) == 1 and (size := _solution(each, names[0])) is not None:
            found[names[0]] = size
        elif {each.left, each.right} == set(names) and not set(names) & set(found.values()):
            found[names[1]] = names[0]
    return found


def least_sizes(requirements: Iterable[Requirement]) -> dict[str, int]:
    """The least sizes of the names that cannot be 1: a window of 3 needs `n` to be 3."""
    found: dict[str, int] = {}
    for each in requirements:
        if each.is_equal or len(each.names) != 1:
            continue
        (name,) = each.names
        size = next((s for s in range(1, _MOST_TRIED) if each.holds({name: s})), 1)
        larger = (*range(size, size + 16), 2 * size, 1000, 1_000_003)
        if all(each.holds({name: more}) for more in larger):
            found[name] = max(size, found.get(name, 1))
    return {name: size for name, size in found.items() if size > 1}


_MOST_TRIED = 1024


def _solution(requirement: Requirement, name: str) -> int | None:
    """
    The size of `name` with which both sides are equal, if their difference grows evenly with it and
    they are equal at no other size. The smaller of 6 and `n` is 6 at many.
    """
    differences = []
    for size in (1, 2, 3, 4):
        at = {name: size}
        left, right = size_of(requirement.left, at), size_of(requirement.right, at)
        if isinstance(left, str) or isinstance(right, str):
            return None
        differences.append(left - right)
    steps = {later - earlier for earlier, later in pairwise(differences)}
    step = min(steps)
    if len(steps) != 1 or not step or -differences[0] % step:
        return None
    size = 1 - differences[0] // step
    if size < 1 or not requirement.holds({name: size}):
        return None
    others = {1, size - 1, size + 1, size + 2, 2 * size, 1_000_003} - {size}
    return None if any(requirement.holds({name: each}) for each in others) else size


def _always_holds(requirement: Requirement) -> bool:
    """Whether it holds at many sizes, small and large. Two formulas that agree there are equal."""
    names = sorted(requirement.names)
    chosen = Random(0)
    points = [dict.fromkeys(names, size) for size in (1, 2, 3, 5, 7, 16, 64)]
    points += [{name: chosen.randint(1, 1000) for name in names} for _ in range(25)]
    return all(map(requirement.holds, points))


def _needs(node: Node, operands: Sequence[Node]) -> Iterator[Need]:
    types = [each.type for each in operands if isinstance(each.type, TensorType)]
    shapes = [type_.shape for type_ in types]
    results = [type_.shape for type_ in tensors(node.type)]
    if not any(isinstance(dim, str) for shape in (*shapes, *results) for dim in shape or ()):
        return
    for shape in results:
        for dim in shape or ():
            if node.op in _WINDOWS and dim != UNKNOWN and isinstance(dim, str):
                yield dim, False, 1
            elif isinstance(dim, str) and "-" in dim:
                yield dim, False, 0
    known = [shape for shape in shapes if shape is not None]
    rule = _RULES.get(node.op)
    if rule is not None and len(known) == len(shapes):
        for left, is_equal, right in rule(node, known):
            if UNKNOWN not in (left, right):
                yield left, is_equal, right


def _is_joined(node: Node, origins: Sequence[Origin]) -> bool:
    """Whether a reshape only says that an operand of a `Concat` is as large as another."""
    return node.op == "reshape" and bool(origins) and origins[-1].op == "Concat"


def _same_dims(node: Node, operands: Sequence[Node]) -> Iterator[Need]:
    shapes = [type_.shape for each in (operands[0], node) for type_ in tensors(each.type)]
    for left, right in zip(*(shape or () for shape in shapes), strict=True):
        if left != right:
            yield left, True, right


def _first_place(graph: Graph, node: Node, origins: Sequence[Origin]) -> Iterator[Need]:
    """Where a `Slice` begins, if that is computed: a `take` below 0 counts from the end."""
    if node.op != "take" or not origins or origins[-1].op != "Slice":
        return
    places = graph.nodes[node.inputs[1]]
    start = graph.nodes[places.inputs[0]].value if places.op == "arange" else None
    if isinstance(start, str) and start != UNKNOWN:
        yield start, False, 0


# ---- Operators: what they need of the shapes of their operands ----

Rule = Callable[[Node, Sequence[Dims]], Iterator[Need]]


def _product(node: Node, shapes: Sequence[Dims]) -> Iterator[Need]:
    left, right = shapes[:2]
    if left and right:
        yield left[-1], True, right[-2] if len(right) > 1 else right[0]


def _convolution(node: Node, shapes: Sequence[Dims]) -> Iterator[Need]:
    data, weight = shapes[:2]
    groups = 1 if node.op.endswith("transpose") else node.attrs["groups"]
    channels = data[str(node.attrs["data_layout"]).index("C")]
    yield channels, True, times(weight[str(node.attrs["kernel_layout"]).index("I")], groups)


def _reshape(node: Node, shapes: Sequence[Dims]) -> Iterator[Need]:
    result = node.type.shape if isinstance(node.type, TensorType) else None
    if result is not None and UNKNOWN not in (*shapes[0], *result):
        yield times(*shapes[0]), True, times(*result)


def _padding(node: Node, shapes: Sequence[Dims]) -> Iterator[Need]:
    least = {"reflect": 1, "circular": 0}.get(str(node.attrs["pad_mode"]))
    widths = node.attrs["pad_width"]
    if least is None or not isinstance(widths, tuple):
        return
    for axis, dim in enumerate(shapes[0]):
        width = max(int(str(each)) for each in widths[2 * axis : 2 * axis + 2])
        if width:
            yield dim, False, width + least


def _largest(node: Node, shapes: Sequence[Dims]) -> Iterator[Need]:
    count = node.attrs["k"]
    if isinstance(count, int) and count > 0:
        yield shapes[0][_axis(node)], False, count


def _elements(node: Node, shapes: Sequence[Dims]) -> Iterator[Need]:
    """One index into an axis for each element."""
    data, indices = shapes[:2]
    axis = _axis(node) % len(data)
    for place, (size, count) in enumerate(zip(data, indices, strict=False)):
        if place != axis:
            yield size, False, count
    for count, update in zip(indices, *shapes[2:3], strict=False) if shapes[2:] else ():
        yield update, True, count


def _points(node: Node, shapes: Sequence[Dims]) -> Iterator[Need]:
    """One index for each of several axes, behind those of batches."""
    batch = node.attrs.get("batch_dims", 0)
    for size, count in zip(*(shape[: int(str(batch))] for shape in shapes[:2]), strict=False):
        yield size, True, count


def _same_batch(node: Node, shapes: Sequence[Dims]) -> Iterator[Need]:
    yield shapes[0][0], True, shapes[1][0]


def _parts(node: Node, shapes: Sequence[Dims]) -> Iterator[Need]:
    places = node.attrs.get("indices_or_sections")
    if isinstance(places, tuple) and places:
        yield shapes[0][_axis(node, 0)], False, int(str(places[-1]))


def _parameters(node: Node, shapes: Sequence[Dims]) -> Iterator[Need]:
    """One number for each element of an axis, or of several."""
    names = [name for name in ("channel_axis", "axes", "axis") if name in node.attrs]
    given = node.attrs[names[0]] if names else 1
    axes = given if isinstance(given, tuple) else (given,)
    for shape in shapes[1:]:
        for axis, count in zip(axes, shape, strict=False):
            if count != 1:
                yield shapes[0][int(str(axis))], True, count


def _attention(node: Node, shapes: Sequence[Dims]) -> Iterator[Need]:
    query, key, value = shapes[:3]
    yield from ((query[i], True, each[i]) for each in (key, value) for i in (0, 2))
    yield query[3], True, key[3]
    yield key[1], True, value[1]


def _axis(node: Node, default: int = -1) -> int:
    axis = node.attrs.get("axis", default)
    return axis if isinstance(axis, int) else default


def times(*dims: object) -> Dim:
    """The product of dimensions, as a dimension."""
    number = 1
    others = []
    for dim in dims:
        if isinstance(dim, int):
            number *= dim
        else:
            others.append(dim if str(dim).isidentifier() else f"({dim})")
    if not others or number == 0:
        return number
    return " * ".join(map(str, [*others, *([number] if number != 1 else [])]))


_CONVOLUTIONS = tuple(f"nn.conv{rank}d{kind}" for rank in (1, 2, 3) for kind in ("", "_transpose"))
_POOLINGS = tuple(f"nn.{kind}_pool{rank}d" for kind in ("max", "avg") for rank in (1, 2, 3))
_WINDOWS = frozenset((*_CONVOLUTIONS, *_POOLINGS))

_RULES: Mapping[str, Rule] = {
    **dict.fromkeys(_CONVOLUTIONS, _convolution),
    "gather_elements": _elements,
    "gather_nd": _points,
    "image.grid_sample": _same_batch,
    "matmul": _product,
    "nn.attention": _attention,
    "nn.batch_norm": _parameters,
    "nn.group_norm": _parameters,
    "nn.instance_norm": _parameters,
    "nn.layer_norm": _parameters,
    "nn.pad": _padding,
    "nn.prelu": _parameters,
    "nn.rms_norm": _parameters,
    "reshape": _reshape,
    "scatter_elements": _elements,
    "split": _parts,
    "topk": _largest,
}
