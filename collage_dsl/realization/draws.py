"""Inputs to verify a model with: several ranges of numbers, and valid integers."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from collage_dsl.graph import Form, Graph, Node, TensorType, members, tensors
from collage_dsl.graph.arrays import Array
from collage_dsl.graph.requirements import requirements_of
from collage_dsl.graph.sizes import Sizes, names_in, size_of, with_sizes


@dataclass(frozen=True, slots=True)
class Draw:
    """Inputs of a model by name."""

    name: str
    inputs: Mapping[str, Array]

    @property
    def is_usual(self) -> bool:
        """Whether any model should accept it."""
        return self.name in (GIVEN, _USUAL)

    @property
    def is_special(self) -> bool:
        """Whether its floating point numbers have infinities and what is not a number."""
        return self.name == _SPECIAL_DRAW


GIVEN = "given"
_USUAL = "usual"
_SPECIAL_DRAW = "special"


def draws_of(
    graph: Graph, given: Mapping[str, Array] | None = None, sizes: Sizes | None = None
) -> Iterator[Draw]:
    """
    Seeded inputs for `graph`, one draw at a time.

    Inputs that are `given` are the first draw. The others then differ from it in floating point
    numbers only, because integers may have a meaning that the model does not show. Without them,
    each draw has other sizes for symbolic dimensions, or the same `sizes` as all others. Raises
    `NoDraw` where an input is no tensor of known rank, and nothing is given.
    """
    kinds = {_USUAL: _usual, "large": _large, "tiny": _tiny, "negative": _negative}
    parameters = [graph.nodes[index] for index in members(graph.parameters)]
    if any("float" in dtype for node in parameters for dtype in _dtypes(node)):
        kinds[_SPECIAL_DRAW] = _special
    if given is not None:
        yield Draw(GIVEN, given)
    for number, (name, floats) in enumerate(kinds.items()):
        generator = np.random.default_rng(number)
        sized = with_sizes(graph, sizes_of(graph, number) if sizes is None else sizes)
        inputs = {}
        for index in members(graph.parameters):
            node = sized.nodes[index]
            is_float = any("float" in dtype for dtype in _dtypes(node))
            if given is not None and is_float:
                known = given[node.name]
                inputs[node.name] = np.asarray(floats(generator, known.shape, str(known.dtype)))
            elif given is not None:
                inputs[node.name] = given[node.name]
            else:
                inputs[node.name] = _drawn(sized, index, name, floats, generator)
        yield Draw(name, inputs)


def other_draws(graph: Graph) -> Iterator[Draw]:
    """
    The first draw of `draws_of` with other sizes of symbolic dimensions, for models that do not run
    at the usual ones: an image may have to be as large as 32, and a multiple of it, and a batch may
    have to be 1, although it has a name.
    """
    usual, needs = sizes_of(graph), requirements_of(graph)
    larger = [dict.fromkeys(usual, size) for size in _LARGER] if usual else []
    doubled = ({**usual, name: 2 * size} for name, size in usual.items())
    for sizes in (*doubled, *larger, *({**usual, name: 1} for name in usual)):
        if _are_small(graph, sizes) and all(each.holds(sizes) for each in needs):
            yield next(draws_of(graph, sizes=sizes))


def timed_sizes_of(graph: Graph) -> Iterator[dict[str, int]]:
    """
    Sizes of the symbolic dimensions of the inputs of `graph` at which its kernels may be timed, the
    best first; the model may not run at some of them. Lengths and sides are larger than the usual
    sizes, which say little of what a kernel takes. What an input begins with is mostly a batch, and
    has the usual size.
    """
    usual, needs = sizes_of(graph), requirements_of(graph)
    sides = {
        name
        for index in members(graph.parameters)
        for type_ in tensors(graph.nodes[index].type)
        for dim in (type_.shape or ())[1:]
        for name in names_in(dim)
    }
    least = min((usual[name] for name in sides), default=0)
    for size in _TIMED if sides else ():
        sizes = usual | {name: usual[name] * size // least for name in sides}
        if size > least and _are_small(graph, sizes) and all(each.holds(sizes) for each in needs):
            yield sizes
    yield usual


def _are_small(graph: Graph, sizes: Sizes) -> bool:
    """Whether the inputs of `graph` at some sizes, and all that it computes, are not too large."""
    sized = with_sizes(graph, sizes)
    parameters = [sized.nodes[index] for index in members(graph.parameters)]
    is_small = all(_elements(node) <= _MOST_ELEMENTS for node in parameters)
    return is_small and all(_elements(node) <= _MOST_INSIDE for node in sized.nodes)


def _elements(node: Node) -> int:
    return sum(prod(type_.static_shape) for type_ in tensors(node.type) if type_.is_static)


class NoDraw(ValueError):  # noqa: N818, reads as what it says
    """There are no random inputs of the type that a model takes."""


_SIZES = (3, 2, 1, 5, 4)
"""The sizes of a symbolic dimension in the draws."""

_LARGER = (12, 16, 24, 32, 48, 64, 96, 128, 192, 224, 256, 384, 512, 768, 1024)
"""Those that are tried where an operator needs another: windows, and halves of halves."""


_TIMED = (128, 64, 32, 16)
"""Those of lengths and sides at which kernels are timed: a text, or a small image."""

_MOST_ELEMENTS = 1 << 22
"""The most elements of an input of other sizes than the usual."""

_MOST_INSIDE = 1 << 26
"""The most elements of any value at other sizes: one attention over 1024 texts takes gigabytes."""


def sizes_of(graph: Graph, draw: int = 0) -> dict[str, int]:
    """
    The sizes of the symbolic dimensions of the inputs of `graph` in a draw; first the usual. They
    fulfil the requirements of its operators, if larger ones do that are equal, or multiples of 2.
    One is twice as large as the others where a size such as `total - past` would be 0.
    """
    named = [
        dim
        for index in members(graph.parameters)
        for type_ in tensors(graph.nodes[index].type)
        for dim in type_.shape or ()
        if isinstance(dim, str)
    ]
    names = dict.fromkeys(name for dim in named for name in names_in(dim))
    usual = _SIZES[draw % len(_SIZES)]
    needs = requirements_of(graph) if names else ()
    differences = [dim for dim in _dims(graph) if "-" in dim and len(names_in(dim)) > 1]

    def first(larger: Iterable[str], dims: Sequence[str]) -> dict[str, int] | None:
        """The first sizes that are tried at which operators fit and none of `dims` is 0."""
        for doubled in ("", *larger):
            for size in (usual, *(usual + more for more in range(1, 8)), *_LARGER):
                sizes = {name: 2 * size if name == doubled else size for name in names}
                is_empty = any(size_of(dim, sizes) == 0 for dim in dims)
                if not is_empty and all(each.holds(sizes) for each in needs):
                    return sizes
        return None

    return first(names, differences) or first((), ()) or dict.fromkeys(names, usual)


def _dims(graph: Graph) -> dict[str, None]:
    """The dimensions of the values of `graph` that are no numbers, each once."""
    types = [type_ for node in graph.nodes for type_ in tensors(node.type)]
    return dict.fromkeys(dim for each in types for dim in each.shape or () if isinstance(dim, str))


def _dtypes(node: Node) -> list[str]:
    return [type_.dtype for type_ in tensors(node.type)]


def _drawn(
    graph: Graph, index: int, draw: str, floats: "_Floats", generator: np.random.Generator
) -> Array:
    node = graph.nodes[index]
    if not isinstance(node.type, TensorType) or not node.type.is_static:
        raise NoDraw(
            f"there are no random values for the input `{node.name}`, which is {node.type}: give "
            "inputs"
        )
    if "float" in node.type.dtype:
        return np.asarray(floats(generator, node.type.static_shape, node.type.dtype))
    return _integers(graph, index, draw, generator)


# Floating point numbers.

_Floats = Callable[[np.random.Generator, tuple[int, ...], str], Array]


def _usual(generator: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Array:
    return generator.normal(size=shape).astype(dtype)


def _large(generator: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Array:
    """Sums of these are still finite in float16."""
    size = 10 if dtype == "float16" else 100
    return (size * generator.normal(size=shape)).astype(dtype)


def _tiny(generator: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Array:
    """These are still normal numbers in float16."""
    size = 1e-2 if dtype == "float16" else 1e-4
    return (size * generator.normal(size=shape)).astype(dtype)


def _negative(generator: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Array:
    return -np.abs(_usual(generator, shape, dtype))


_SPECIAL = (np.nan, np.inf, -np.inf, -0.0, 0.0)


def _special(generator: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Array:
    """One of 64 elements is no ordinary number, but one to three of each kind."""
    array = np.ravel(generator.normal(size=shape))
    count = len(_SPECIAL) * min(3, max(1, array.size // 64 // len(_SPECIAL)))
    places = generator.permutation(array.size)[:count]
    array[places] = np.resize(_SPECIAL, places.size)
    return array.reshape(shape).astype(dtype)


# Integers.

_SAME_VALUES = (
    *("broadcast_to", "concat", "expand_dims", "flatten", "permute_dims", "reshape", "split"),
    *("squeeze", "strided_slice", "tile"),
)
"""Operators whose results have only elements of their operands."""

_INDEXING = {"take": 1, "gather_elements": 1, "gather_nd": 1, "one_hot": 0, "scatter_elements": 1}
_INDEXING |= {"scatter_nd": 1, "index_tensor": 1, "index_put": 1, "dynamic_strided_slice": 1}
"""The position of the operand that has indices."""

_FROM_THE_END = ("take", "gather_elements", "gather_nd", "scatter_elements", "scatter_nd")
"""Operators for which a negative index counts from the end."""

_DIVISION = ("divide", "floor_divide", "mod", "floor_mod")
_LIMITED = ("power", "left_shift", "right_shift")
"""Operators of which the second operand must not be any integer."""

_MOST = 2**15
"""Products of two integers of up to this size fit into 32 bits."""


def _integers(graph: Graph, index: int, draw: str, generator: np.random.Generator) -> Array:
    """Valid indices, else 0 and 1, which masks have, and integers of the whole range in turn."""
    type_ = graph.nodes[index].tensor
    low, high = _range(graph, index, type_.dtype, draw)
    return np.asarray(generator.integers(low, high, type_.static_shape), type_.dtype)


def integer_range(graph: Graph, index: int) -> tuple[int, int]:
    """The least usual integer of a parameter, and the end; see `_integers`."""
    return _range(graph, index, graph.nodes[index].tensor.dtype, _USUAL)


def _range(graph: Graph, index: int, dtype: str, draw: str) -> tuple[int, int]:
    same = frozenset(same_values(graph, index))
    uses = [(user, node) for node in same for user in members(graph.users_of[node])]
    limits = [_limit(graph, graph.nodes[user], node) for user, node in uses]
    known = [limit for limit in limits if limit is not None]
    if not known and (numbered := _numbered(graph, uses)):
        return numbered
    if known:
        size = max(min(known), 1)
        may_be_negative = dtype.startswith("int") and all(
            graph.nodes[user].op in _FROM_THE_END
            for (user, _), limit in zip(uses, limits, strict=True)
            if limit is not None
        )
        return (-size, 0) if draw == "negative" and may_be_negative else (0, size)
    if dtype == "bool" or draw == _USUAL or _is_limited(graph, index):
        return (1, 2) if _divides(graph, index) else (0, 2)
    if dtype in ("int8", "uint8", "int16", "uint16"):
        low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max) + 1
    else:
        low, high = (0 if dtype.startswith("u") else -_MOST), _MOST
    if _divides(graph, index):
        low = 1
    return low, min(high, 0) if draw == "negative" and low < 0 else high


def same_values(graph: Graph, index: int) -> Iterator[int]:
    """The nodes of which the elements are those of a node: itself, and views of it."""
    yield index
    for user in members(graph.users_of[index]):
        node = graph.nodes[user]
        is_cast = node.op == "astype" and "int" in getattr(node.type, "dtype", "")
        if node.form in (Form.TUPLE, Form.PROJECTION) or node.op in _SAME_VALUES or is_cast:
            yield from same_values(graph, user)


def _limit(graph: Graph, user: Node, index: int) -> int | None:
    """How many indices are valid where `user` takes a node as indices; None if it does not."""
    at = _INDEXING.get(user.op)
    if at is None or len(user.inputs) <= at or user.inputs[at] != index:
        return None
    if user.op == "one_hot":
        return int(user.attrs["depth"])  # type: ignore[arg-type]
    data = graph.nodes[user.inputs[0]].type
    if not isinstance(data, TensorType) or not data.is_static:
        return 1
    axis = user.attrs.get("axis")
    if isinstance(axis, int) and data.static_shape:
        return data.static_shape[axis]
    return min(data.static_shape, default=1)


def _numbered(graph: Graph, uses: Sequence[tuple[int, int]]) -> tuple[int, int] | None:
    """
    The range of the numbers in a constant that `uses` compare with, as a one-hot code that is
    spelled out does: no other integer stands for anything. None if there are no two of them.
    """
    for user, index in uses:
        node = graph.nodes[user]
        others = [graph.nodes[i].value for i in node.inputs if i != index]
        if node.op == "equal" and others and isinstance(others[0], np.ndarray):
            numbers = np.unique(others[0])
            return (int(numbers[0]), int(numbers[-1]) + 1) if numbers.size > 1 else None
    return None


def _is_limited(graph: Graph, index: int) -> bool:
    """Whether integers that are computed from a node are indices, exponents or widths."""
    return any(
        node.op in _INDEXING or node.op in _LIMITED for node, _ in _operands_from(graph, index)
    )


def _divides(graph: Graph, index: int) -> bool:
    return any(
        node.op in _DIVISION and operand == node.inputs[1]
        for node, operand in _operands_from(graph, index)
    )


def _operands_from(graph: Graph, index: int) -> Iterator[tuple[Node, int]]:
    """The calls below a node, each with the integer operands that depend on it."""
    below = graph.downstream_of[index] | 1 << index
    for user in members(graph.downstream_of[index] & graph.calls):
        node = graph.nodes[user]
        for position, operand in enumerate(node.inputs):
            type_ = graph.nodes[operand].type
            is_integer = isinstance(type_, TensorType) and "float" not in type_.dtype
            if below >> operand & 1 and is_integer and position == _INDEXING.get(node.op, position):
                yield node, operand
