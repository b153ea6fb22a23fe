"""What the names in a pattern stand for, in one use of the pattern."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from collage_dsl.rules.pattern import Operand, Parameter, Pattern, PatternCall, Reference


@dataclass(slots=True, eq=False)
class Frame:
    """
    One use of `pattern`: by itself, or where another pattern calls it.

    Where it is called, `operands` are what its parameters stand for in the pattern of the
    `caller`, and the names that it binds begin with `prefix`, which tells the calls apart.

    Not frozen, because frozen ones take twice as long to make and the matcher makes many.
    """

    pattern: Pattern
    results: tuple[Reference, ...]
    values: Mapping[str, Operand]
    parameters: Mapping[str, Parameter]
    prefix: str = ""
    operands: Mapping[str, Operand] = field(default_factory=dict)
    caller: "Frame | None" = None

    @classmethod
    def of(cls, pattern: Pattern) -> Self:
        """`pattern` by itself."""
        return cls(
            pattern,
            tuple(map(Reference, (pattern.result, *pattern.others))),
            {binding.name: binding.value for binding in pattern.bindings},
            {parameter.name: parameter for parameter in pattern.parameters},
        )

    @classmethod
    def called(cls, call: PatternCall, number: int, caller: "Frame") -> Self:
        """What `call` in the pattern of `caller` uses, as the call of that `number`."""
        alone = cls.of(call.pattern)
        operands = dict(zip(alone.parameters, call.operands, strict=True))
        return replace(alone, prefix=f"{number}.", operands=operands, caller=caller)
