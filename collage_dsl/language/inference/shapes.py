"""A call whose type is inferred, and what the rules of several operators need."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from math import prod

from collage_dsl.graph import Attribute, Dim, TensorType, Type
from collage_dsl.graph.types import short_dtype, tensors

UNKNOWN_DIM = "?"
"""An unknown dimension of a shape whose rank is known."""

_MOST_SYMBOLS = 8
"""A dimension is unknown if more symbolic ones are added or multiplied."""

Shape = tuple[Dim, ...]


class MismatchError(Exception):
    """The operands do not fit each other; the message says how."""

    def __str__(self) -> str:
        return _ONE.sub(_in_singular, super().__str__())


_ONE = re.compile(
    r"(?<![\w.-])1 (axe|batche|boxe|channel|column|dimension|direction|feature|filter|group|head"
    r"|indice|letter|number|operand|part|region|row|subscript|value)s\b( (?:do|are|have|make)\b)?"
)
_SINGULARS = {"axe": "axis", "batche": "batch", "boxe": "box", "indice": "index"}
_VERBS = {" do": " does", " are": " is", " have": " has", " make": " makes"}


def _in_singular(found: re.Match[str]) -> str:
    """`1 channels do` as `1 channel does`."""
    noun, verb = found.groups()
    return f"1 {_SINGULARS.get(noun, noun)}{_VERBS.get(verb, '')}"


class UnknownAttributeError(Exception):
    """An attribute that the type of a call depends on is not known; the message is its name."""


@dataclass(frozen=True, slots=True)
class Call:
    """
    Everything that the type of a call depends on. `values` are those of literal operands. `agreed`
    has the dimensions of operands that must be equal, as far as that was looked at.
    """

    op: str
    types: tuple[Type, ...]
    values: tuple[object, ...]
    attrs: Mapping[str, Attribute]
    agreed: list[tuple[Dim, Dim]] = field(default_factory=list, compare=False, repr=False)

    def tensor(self, at: int = 0) -> TensorType | None:
        type_ = self.types[at] if at < len(self.types) else None
        return type_ if isinstance(type_, TensorType) else None

    def shape(self, at: int = 0) -> Shape | None:
        tensor = self.tensor(at)
        return None if tensor is None else tensor.shape

    def ints(self, name: str) -> tuple[int, ...] | None:
        """The numbers of an attribute; None if it has no value."""
        match self.attrs.get(name):
            case int() as number:
                return (number,)
            case tuple() as numbers:
                return tuple(number for number in numbers if isinstance(number, int))
        return None

    def whole(self, name: str) -> int | None:
        value = self.attrs.get(name)
        return value if isinstance(value, int) else None

    def known(self, name: str) -> Attribute | None:
        """The value of an attribute; None if it has no value, or if that is not known."""
        try:
            return self.attrs.get(name)
        except UnknownAttributeError:
            return None

    def lacks(self, name: str) -> bool:
        """Whether it is known that an attribute has no value."""
        try:
            return self.attrs.get(name) is None
        except UnknownAttributeError:
            return False

    def known_whole(self, name: str) -> int | None:
        value = self.known(name)
        return value if isinstance(value, int) else None

    def text(self, name: str) -> str:
        return str(self.attrs.get(name) or "")

    def agree(self, one: Dim, other: Dim, otherwise: str) -> None:
        """Raise MismatchError, which says `otherwise`, if two dimensions differ."""
        if differ(one, other):
            raise MismatchError(otherwise)
        self.agreed.append((one, other))

    def agree_all(self, one: Shape, other: Shape, otherwise: str) -> None:
        """Raise MismatchError, which says `otherwise`, if two shapes differ."""
        if len(one) != len(other):
            raise MismatchError(otherwise)
        for left, right in zip(one, other, strict=True):
            self.agree(left, right, otherwise)


def dtype_of(call: Call) -> str:
    """The dtype in the attributes, else that of the first tensor."""
    found = (tensor.dtype for type_ in call.types for tensor in tensors(type_))
    return call.text("out_dtype") or call.text("dtype") or next(found, "unknown")


def unknown(call: Call) -> Type:
    return TensorType(dtype_of(call), None)


def like_first(call: Call) -> Type:
    return result(call, call.shape())


def result(call: Call, shape: Shape | None, dtype: str | None = None) -> Type:
    return TensorType(dtype or dtype_of(call), shape)


def check_dtypes(types: Iterable[Type]) -> None:
    """Raise MismatchError unless all tensors have the same dtype."""
    dtypes = {tensor.dtype for type_ in types for tensor in tensors(type_)} - {"unknown"}
    if len(dtypes) > 1:
        raise MismatchError(f"the dtypes {' and '.join(sorted(map(short_dtype, dtypes)))} differ")


def check_unless_bool(types: Iterable[Type]) -> None:
    """Raise MismatchError unless all tensors have the same dtype, except those of `bool`."""
    found = (tensor for type_ in types for tensor in tensors(type_))
    check_dtypes(tensor for tensor in found if tensor.dtype != "bool")


def check_multiplied(call: Call) -> None:
    """Raise MismatchError if dtypes differ, unless `out_dtype` says that of the result."""
    if call.attrs.get("out_dtype") is None:
        check_unless_bool(call.types)


def broadcast(shapes: list[Shape | None]) -> Shape | None:
    known = [shape for shape in shapes if shape is not None]
    if len(known) < len(shapes) or not known:
        return None
    rank = max(map(len, known))
    padded = [(1,) * (rank - len(shape)) + shape for shape in known]
    return tuple(reduce(_one_dim, dims) for dims in zip(*padded, strict=True))


def multiplied(call: Call, left: Shape | None, right: Shape | None) -> Shape | None:
    """The shape of a product of matrices, as `matmul` of NumPy defines it."""
    if left is None or right is None:
        return None
    if not left or not right:
        raise MismatchError("a scalar cannot be multiplied as a matrix")
    columns, rows = left[-1], right[-2:][0]
    call.agree(columns, rows, f"{columns} columns cannot be multiplied with {rows} rows")
    shape = broadcast([left[:-2], right[:-2]]) or ()
    return shape + left[-2:-1] + (right[-1:] if len(right) > 1 else ())


def _one_dim(left: Dim, right: Dim) -> Dim:
    if right == 1:
        return left
    if left == 1:
        return right
    if differ(left, right):
        raise MismatchError(f"dimensions {left} and {right} do not broadcast")
    return more_exact(left, right)


def more_exact(left: Dim, right: Dim) -> Dim:
    """The more exact of two descriptions of the same dimension."""
    if left == right or isinstance(left, int):
        return left
    return right if isinstance(right, int) else UNKNOWN_DIM


def differ(left: Dim, right: Dim) -> bool:
    return isinstance(left, int) and isinstance(right, int) and left != right


def are_different(left: Shape, right: Shape) -> bool:
    return len(left) != len(right) or any(map(differ, left, right))


def more_exact_shape(left: Shape | None, right: Shape | None) -> Shape | None:
    """The more exact of two descriptions of the same shape."""
    if left is None or right is None:
        return right if left is None else left
    return tuple(map(_known_dim, left, right))


def _known_dim(one: Dim, other: Dim) -> Dim:
    """What is known of a dimension that has two descriptions."""
    if UNKNOWN_DIM in (one, other):
        return other if one == UNKNOWN_DIM else one
    return more_exact(one, other)


def shared_shape(one: Shape | None, other: Shape | None) -> Shape | None:
    """What holds for both of two shapes."""
    if one is None or other is None or len(one) != len(other):
        return None
    pairs = zip(one, other, strict=True)
    return tuple(left if left == right else UNKNOWN_DIM for left, right in pairs)


def listed(shape: Shape) -> str:
    return f"[{', '.join(map(str, shape))}]"


def plus(dim: str, number: int) -> str:
    if number < 0:
        return f"{closed(dim)} - {-number}"
    return f"{closed(dim)} + {number}" if number else dim


def closed(dim: str) -> str:
    return dim if dim.isidentifier() else f"({dim})"


def is_no_multiple(number: Dim, of: Dim) -> bool:
    return isinstance(number, int) and isinstance(of, int) and number % of != 0


def product(shape: Shape) -> Dim:
    """`n * m * 6`: the product of symbolic dimensions and of all numbers."""
    symbols = [dim for dim in shape if isinstance(dim, str)]
    number = prod(dim for dim in shape if isinstance(dim, int))
    if not symbols or number == 0:
        return number
    if UNKNOWN_DIM in symbols or len(symbols) > _MOST_SYMBOLS:
        return UNKNOWN_DIM
    if len(symbols) == 1 and number == 1:
        return symbols[0]
    return " * ".join([*map(closed, symbols), *([str(number)] if number != 1 else [])])


def times(dim: Dim, number: int) -> Dim:
    return product((dim, number))


def total(dims: Iterable[Dim]) -> Dim:
    """`n + m + 6`: the sum of symbolic dimensions and of all numbers."""
    given = tuple(dims)
    symbols = [dim for dim in given if isinstance(dim, str)]
    number = sum(dim for dim in given if isinstance(dim, int))
    if not symbols:
        return number
    if UNKNOWN_DIM in symbols or len(symbols) > _MOST_SYMBOLS:
        return UNKNOWN_DIM
    if len(symbols) == 1:
        return plus(symbols[0], number)
    sum_of_symbols = " + ".join(map(closed, symbols))
    return f"{sum_of_symbols} + {number}" if number else sum_of_symbols


def axis_in(axis: int, rank: int) -> int:
    if not -rank <= axis < rank:
        axes = f"has axes {-rank} to {rank - 1}" if rank else "has no axes"
        raise MismatchError(f"there is no axis {axis}: a value of rank {rank} {axes}")
    return axis % rank


def axes_in(axes: Iterable[int], rank: int) -> tuple[int, ...]:
    found = tuple(axis_in(axis, rank) for axis in axes)
    if len(set(found)) < len(found):
        raise MismatchError(f"axes {list(axes)} name a dimension twice")
    return found
