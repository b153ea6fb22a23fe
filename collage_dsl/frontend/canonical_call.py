"""A call of the function that is brought to canonical form, as the rules see it."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from onnx import helper
from tvm import relax

from collage_dsl.frontend.bindings import Bindings, is_leaf
from collage_dsl.frontend.onnx_site import Scope, Site, Value, known_dims, static_dims
from collage_dsl.graph.arrays import Array


class Writer(Scope, Protocol):
    """The access of a rule to the new values, and to the old bindings."""

    old: Bindings
    uses: Counter[str]
    functions: Callable[[Any], Any | None]

    def key(self, leaf: Any) -> str:
        """The name of a variable or constant of the old function."""

    def value(self, name: str) -> Value:
        """The new value `name`."""


@dataclass(frozen=True, slots=True)
class OldCall:
    """A call of the old function, and the name of the value that it gives."""

    writer: Writer
    call: Any
    name: str

    @property
    def attrs(self) -> Any:
        return self.call.attrs

    @property
    def type(self) -> Any:
        return self.call.ty

    def type_of(self, place: int) -> Any:
        return self.call.args[place].ty

    def has_leaves(self, *places: int) -> bool:
        """Whether the operands at `places` are variables or constants."""
        return all(is_leaf(self.writer.old.resolved(self.call.args[place])) for place in places)

    def key(self, place: int) -> str:
        return self.writer.key(self.call.args[place])

    def constant(self, place: int) -> Array | None:
        return self.writer.constant(self.key(place)) if self.has_leaves(place) else None

    def expr(self, place: int) -> Any:
        return self.writer.expr(self.key(place))

    def made_by(self, place: int, op: str) -> "OldCall | None":
        """The call of `op` that gives the operand at `place`, if nothing else uses it."""
        operand = self.call.args[place]
        made = self.writer.old.call(operand, op)
        if made is None or self.writer.uses[self.key(place)] != 1:
            return None
        return OldCall(self.writer, made, self.key(place))

    def as_onnx(self, op: str, keys: Sequence[str]) -> Site:
        """The ONNX node that computes the same from the values `keys`."""
        return Site(self.writer, helper.make_node(op, keys, [self.name]), {})


Rule = Callable[[OldCall], Value | None]
"""Gives the canonical form of a call; None if it has that form already."""


def passed_on(call: OldCall) -> Value:
    """The first operand."""
    pending = call.writer.pending(call.key(0))
    return call.writer.value(call.key(0)) if pending is None else pending


def dims_of(type_: Any) -> list[int] | None:
    """The dimensions of a tensor type, if all are numbers."""
    if not isinstance(type_, relax.TensorType) or type_.ndim < 0:
        return None
    return known_dims(static_dims(type_))


def keeps_dtype(call: OldCall) -> bool:
    """Whether the elements of the result have the type of those of the first operand."""
    return bool(call.type.dtype == call.type_of(0).dtype)


SMALL = 4096
"""A constant of so many elements is computed even if it is larger than what it is made of."""


def either(*rules: Rule) -> Rule:
    """The first of several rules that gives a value."""

    def rule(call: OldCall) -> Value | None:
        return next((made for each in rules if (made := each(call)) is not None), None)

    return rule
