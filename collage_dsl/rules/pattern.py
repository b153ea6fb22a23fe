"""Patterns: dataflow equations that a sub-graph may satisfy."""

from dataclasses import dataclass, field

from collage_dsl.rules.condition import Where
from collage_dsl.source import Span


@dataclass(frozen=True, slots=True)
class Parameter:
    """
    A value that flows into a pattern: `x`, `w: const`, `b?: const`.

    One that is `constant` matches constants only and binds them inside the kernel. One that
    is `optional` is absent where the optional node that takes it is.
    """

    name: str
    constant: bool = False
    optional: bool = False
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Reference:
    """A parameter, or a value bound by an earlier equation."""

    name: str


@dataclass(frozen=True, slots=True)
class Anything:
    """`_`: any value at all; stays outside the match."""


@dataclass(frozen=True, slots=True)
class Number:
    """A constant all of whose elements are within `tolerance` (relative) of `value`."""

    value: float
    tolerance: float = 0.0


@dataclass(frozen=True, slots=True)
class Call:
    """
    A call of one of `ops`: `nn.conv2d(x, w) [groups == 1]`, `(nn.relu | nn.silu)(t)`.

    An `optional` call, `add?(k, b)`, may be missing: then it stands for its first operand.
    The operands of a commutative operator match in either order, unless the call is
    `ordered`. The value of a `shared` call may be used outside the match too.
    """

    ops: tuple[str, ...]
    operands: tuple["Operand", ...]
    attributes: tuple[Where, ...] = ()
    optional: bool = False
    ordered: bool = False
    shared: bool = False
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class PatternCall:
    """
    What another pattern matches: `activation?(t)`.

    Its parameters are bound to the operands and its conditions hold too; what it covers is
    part of the match. Like a call, an `optional` one may be missing.
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
    `repeat[1..6] act(x)`. The first takes what is written, `x`.
    """

    call: Call | PatternCall
    least: int
    most: int


@dataclass(frozen=True, slots=True)
class Either:
    """
    What one of `choices` matches: `(nn.relu(x) | add(x, b))`. All ways are tried, in the order
    written; names that only one of them binds are absent in the others.
    """

    choices: tuple["Operand", ...]


Operand = Call | PatternCall | TupleOf | FieldOf | Repeat | Either | Reference | Anything | Number


@dataclass(frozen=True, slots=True)
class Binding:
    """`name = value;`"""

    name: str
    value: Operand


@dataclass(frozen=True, slots=True)
class Pattern:
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
    """Further results: `yield y, r;`. They may be used outside, as the first may."""
    taps: bool = False
    """Whether every value in it may be used outside."""
    anchor: str = ""
    """The name of its main operator, where it says which that is: `anchor k;`."""
    span: Span | None = field(default=None, compare=False, repr=False)

    def parameter(self, name: str) -> Parameter | None:
        return next((p for p in self.parameters if p.name == name), None)
