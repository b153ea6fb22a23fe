"""The data of a pattern: its parameters, equations, conditions and results."""

from dataclasses import dataclass, field
from typing import Literal

from collage_dsl.graph import Kind
from collage_dsl.rules.condition import Where
from collage_dsl.source import Span


@dataclass(frozen=True, slots=True)
class Excluded:
    """
    Where the value of a parameter must not come from: `x: not (nn.relu | const)`.

    It must not be the result of one of `ops`, or of a call of one of `kinds`, nor a field of such
    a result. Without `constants`, it may be a constant.
    """

    ops: tuple[str, ...] = ()
    constants: bool = False
    kinds: tuple[Kind, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """What is excluded, in the words of the language."""
        return (*self.ops, *map(str, self.kinds), *["const"] * self.constants)


@dataclass(frozen=True, slots=True)
class Parameter:
    """
    A value that flows into a pattern: `x`, `w: const`, `b?: const`, `x: not nn.relu`.

    A `constant` parameter matches only constants, and binds them inside the kernel. An
    `optional` parameter is absent if the optional node that takes it is absent.
    """

    name: str
    constant: bool = False
    optional: bool = False
    excluded: Excluded | None = None
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def is_restricted(self) -> bool:
        """Whether not every value can be its value."""
        return self.constant or self.excluded is not None


@dataclass(frozen=True, slots=True)
class Reference:
    """A parameter, or a value bound by an earlier equation."""

    name: str
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Anything:
    """`_`: any value; it stays outside the match."""


@dataclass(frozen=True, slots=True)
class Number:
    """A constant whose elements all differ from `value` by at most `tolerance` (relative)."""

    value: float
    tolerance: float = 0.0


ANY: Literal["_"] = "_"
"""Written for a number of a list, or a dimension, that may be any."""

OPEN: Literal[".."] = ".."
"""Written at most once in a list, for any number of items."""


@dataclass(frozen=True, slots=True)
class ListOf:
    """
    A list that is written in the program, such as a shape or the bounds of a slice:
    `reshape(x, [1, _, 64])`. An item is a number, `_` for any, or `..` for any number of items.

    Names of items, `[n, _, 64]`, are conditions: the list has a name, and `n` is a dimension of it.
    """

    items: tuple[int | Literal["_", ".."], ...]

    def items_at(self, length: int) -> tuple[tuple[int, int], ...] | None:
        """The numbers in it with their places in a list of `length`; None if none is so long."""
        if OPEN not in self.items:
            wanted = self.items if length == len(self.items) else None
        else:
            at = self.items.index(OPEN)
            more = length - len(self.items) + 1
            wanted = (*self.items[:at], *[ANY] * more, *self.items[at + 1 :]) if more >= 0 else None
        if wanted is None:
            return None
        return tuple((at, item) for at, item in enumerate(wanted) if isinstance(item, int))


@dataclass(frozen=True, slots=True)
class Call:
    """
    A call of one of `ops`: `nn.conv2d(x, w) [groups == 1]`, `(nn.relu | nn.silu)(t)`; or a call,
    with as many operands, whose kind is one of `kinds`: `elementwise(x)`.

    An `optional` call, `add?(k, b)`, may be absent: then its first operand matches in its place.
    The operands of a commutative operator match in either order, unless the call is
    `ordered`. The value of a `shared` call may be used outside the match too.
    """

    ops: tuple[str, ...]
    operands: tuple["Operand", ...]
    attributes: tuple[Where, ...] = ()
    optional: bool = False
    ordered: bool = False
    shared: bool = False
    kinds: tuple[Kind, ...] = ()
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def names(self) -> tuple[str, ...]:
        """The operators and kinds, in the words of the language."""
        return (*self.ops, *map(str, self.kinds))


@dataclass(frozen=True, slots=True)
class Flat:
    """
    A tree of calls of `op`, in any order and grouping: `multiply(x, 0.5, add(e, 1)) flat`.

    The operands that are not numbers match the values that the tree combines, each one of them.
    The constants that are left over are combined to one number, as are the numbers among the
    operands, and the two must be equal. `flattening.py` says which calls a tree consists of. The
    result of a `shared` tree may be used outside the match too.
    """

    op: str
    operands: tuple["Operand", ...]
    shared: bool = False
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def values(self) -> tuple["Operand", ...]:
        """The operands that are not numbers."""
        return tuple(operand for operand in self.operands if not isinstance(operand, Number))

    @property
    def numbers(self) -> tuple[Number, ...]:
        return tuple(operand for operand in self.operands if isinstance(operand, Number))


@dataclass(frozen=True, slots=True)
class PatternCall:
    """
    A call of another pattern: `activation?(t)`.

    Its parameters are bound to the operands, and its conditions must hold too. The nodes that it
    covers are part of the match. Like a `Call`, it may be absent if it is `optional`.
    """

    pattern: "Pattern"
    operands: tuple["Operand", ...]
    optional: bool = False
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class TupleOf:
    """A tuple of values: `concat((a, b))`. The tuple itself is part of the match."""

    fields: tuple["Operand", ...]


@dataclass(frozen=True, slots=True)
class FieldOf:
    """One field of a tuple: `split(x).0`. The projection is part of the match."""

    of: "Operand"
    index: int


@dataclass(frozen=True, slots=True)
class Repeat:
    """
    `least` to `most` calls in a chain, each the first operand of the next:
    `repeat[1..6] act(x)`. The first call takes the operand that is written, `x`.
    """

    call: Call | PatternCall
    least: int
    most: int
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class TupleOfEach:
    """
    A tuple of `least` to `most` fields that all match `field`: `each[2..8] act(_)`. The tuple is
    part of the match. A name in `field` is the same value in each field.
    """

    field: "Operand"
    least: int
    most: int


@dataclass(frozen=True, slots=True)
class PathFrom:
    """
    A value that is computed from `origin` by `least` to `most` calls of `ops` and `kinds` alone:
    `path[1..6] elementwise from k`.

    All calls on all ways from the origin to the value are inside, and there are no others. What
    else they take comes from outside.
    """

    ops: tuple[str, ...]
    origin: "Operand"
    least: int
    most: int
    kinds: tuple[Kind, ...] = ()
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def names(self) -> tuple[str, ...]:
        """The operators and kinds, in the words of the language."""
        return (*self.ops, *map(str, self.kinds))


@dataclass(frozen=True, slots=True)
class Either:
    """
    A match of one of `choices`: `(nn.relu(x) | add(x, b))`. All choices are tried, in the order
    written. A name that only one choice binds is absent in a match of another choice.
    """

    choices: tuple["Operand", ...]


Operand = (
    Call
    | Flat
    | PatternCall
    | TupleOf
    | TupleOfEach
    | FieldOf
    | Repeat
    | PathFrom
    | Either
    | Reference
    | Anything
    | Number
    | ListOf
)


@dataclass(frozen=True, slots=True)
class Binding:
    """`name = value;`"""

    name: str
    value: Operand


class _HashedOnce:
    """The place of a hash that is kept. It is no field, so that no copy and no pickle has it."""

    __slots__ = ("_hash",)
    _hash: int


@dataclass(frozen=True, slots=True)
class Pattern(_HashedOnce):
    """
    A named pattern: the equations in order, the conditions on them, and the result.

        pattern conv_relu(x, w: const) {
          k = nn.conv2d(x, w);
          y = nn.relu(k);
          yield y;
        }
    """

    name: str
    parameters: tuple[Parameter, ...]
    bindings: tuple[Binding, ...]
    result: str
    conditions: tuple[Where, ...] = ()
    others: tuple[str, ...] = ()
    """Further results: `yield y, r;`. Like the first result, they may be used outside."""
    taps: bool = False
    """Whether every value inside the match may be used outside."""
    anchor: str = ""
    """The name of the main operator, if the pattern gives one: `anchor k;`."""
    span: Span | None = field(default=None, compare=False, repr=False)

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:  # what is known of patterns is kept by them: they are hashed often
            found = hash((self.name, self.parameters, self.bindings, self.result, self.conditions))
            object.__setattr__(self, "_hash", found)
            return found

    @property
    def results(self) -> tuple[str, ...]:
        """The names of the results, the first one first."""
        return (self.result, *self.others)

    @property
    def values(self) -> dict[str, Operand]:
        """By name, what the equations bind."""
        return {binding.name: binding.value for binding in self.bindings}

    def parameter(self, name: str) -> Parameter | None:
        return next((p for p in self.parameters if p.name == name), None)
