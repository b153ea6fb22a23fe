"""The meaning of the names of a pattern in one use of it, by itself or in another pattern."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from collage_dsl.rules.pattern import Operand, Parameter, Pattern, PatternCall, Reference


@dataclass(slots=True, eq=False)
class Frame:
    """
    One use of `pattern`: by itself, or in another pattern that calls it.

    If it is called, `operands` are the operands of the call in the pattern of the `caller`, by
    parameter. The names that it binds begin with `prefix`, which is different for each call.

    Not frozen, because a frozen dataclass takes twice as long to make and the matcher makes many.
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
            tuple(map(Reference, pattern.results)),
            pattern.values,
            {parameter.name: parameter for parameter in pattern.parameters},
        )

    @classmethod
    def called(cls, call: PatternCall, number: int, caller: "Frame") -> Self:
        """The use of a pattern by `call` in the pattern of `caller`; `number` counts calls."""
        alone = cls.of(call.pattern)
        operands = dict(zip(alone.parameters, call.operands, strict=True))
        return replace(alone, prefix=f"{number}.", operands=operands, caller=caller)
