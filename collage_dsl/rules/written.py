"""Write a part of a pattern as one line of the language, for explanations."""

from collections.abc import Callable
from functools import partial
from typing import assert_never

from collage_dsl.rules.condition import FUNCTIONS, TOLERANCE, DimAt, Place, Question
from collage_dsl.rules.pattern import (
    Anything,
    Call,
    Either,
    Excluded,
    FieldOf,
    Flat,
    ListOf,
    Number,
    Operand,
    Parameter,
    PathFrom,
    PatternCall,
    Reference,
    Repeat,
    TupleOf,
    TupleOfEach,
)


def operand_text(operand: Operand, brackets: Callable[[Call], str] = lambda _: "") -> str:
    """`add?(k, b)`, with what `brackets` says of each call after it."""
    text = partial(operand_text, brackets=brackets)
    match operand:
        case Reference(name):
            return name
        case Anything():
            return "_"
        case Number(value, tolerance):
            within = "" if tolerance in (0, TOLERANCE) else f" within {tolerance}"
            return f"{'~' if tolerance else ''}{value!r}{within}"
        case ListOf():
            return list_text(operand)
        case Call(operands=operands):
            modifiers = f"{' ordered' * operand.ordered}{' shared' * operand.shared}"
            called = f"{called_text(operand)}{'?' * operand.optional}"
            return f"{called}({', '.join(map(text, operands))}){brackets(operand)}{modifiers}"
        case Flat(op, operands):
            return f"{op}({', '.join(map(text, operands))}) flat{' shared' * operand.shared}"
        case PatternCall(pattern, operands, optional):
            return f"{pattern.name}{'?' * optional}({', '.join(map(text, operands))})"
        case TupleOf(fields):
            comma = "," if len(fields) == 1 else ""
            return f"({', '.join(map(text, fields))}{comma})"
        case TupleOfEach(field, least, most):
            return f"each[{least}..{most}] {text(field)}"
        case PathFrom(_, origin, least, most):
            return f"path[{least}..{most}] {called_text(operand)} from {text(origin)}"
        case FieldOf(Repeat() | TupleOfEach() | PathFrom() as of, index):
            return f"({text(of)}).{index}"
        case FieldOf(of, index):
            return f"{text(of)}.{index}"
        case Repeat(call, least, most):
            return f"repeat[{least}..{most}] {text(call)}"
        case Either(choices):
            return f"({' | '.join(map(text, choices))})"
        case _:
            assert_never(operand)


_NAMES = {asked: name for name, asked in FUNCTIONS.items()}


def question_text(asked: Question, of: str = "") -> str:
    """`dim(x, 0)`, about the value that is called `of`, if it has another name than in `asked`."""
    axis = f", {asked.axis}" if isinstance(asked, DimAt | Place) else ""
    return f"{_NAMES[type(asked)]}({of or asked.of}{axis})"


def list_text(wanted: ListOf) -> str:
    """`[1, _, ..]`"""
    return f"[{', '.join(map(str, wanted.items))}]"


def parameter_text(parameter: Parameter) -> str:
    """`b?: const`."""
    sort = ": const" if parameter.constant else ""
    if parameter.excluded is not None:
        sort = f": {excluded_text(parameter.excluded)}"
    return f"{parameter.name}{'?' * parameter.optional}{sort}"


def excluded_text(excluded: Excluded) -> str:
    """`not (nn.relu | const)`."""
    return f"not {_alternatives(excluded.names)}"


def called_text(call: Call | PathFrom) -> str:
    """What is called: `nn.relu`, `(nn.relu | elementwise)`."""
    return _alternatives(call.names)


def _alternatives(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else f"({' | '.join(names)})"
