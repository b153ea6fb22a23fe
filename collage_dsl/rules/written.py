"""Write a part of a pattern as one line of the language, for explanations."""

from typing import assert_never

from collage_dsl.rules.condition import FUNCTIONS, DimAt, Place, Question
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


def operand_text(operand: Operand) -> str:
    """`add?(k, b)`, without the conditions in brackets."""
    match operand:
        case Reference(name):
            return name
        case Anything():
            return "_"
        case Number(value, tolerance):
            return f"{'~' if tolerance else ''}{value!r}"
        case ListOf():
            return list_text(operand)
        case Call(operands=operands):
            arguments = _arguments(operands, operand.optional)
            return f"{called_text(operand)}{arguments}{_modifiers(operand)}"
        case Flat(op, operands):
            return f"{op}{_arguments(operands, False)} flat{' shared' * operand.shared}"
        case PatternCall(pattern, operands, optional):
            return f"{pattern.name}{_arguments(operands, optional)}"
        case TupleOf(fields):
            comma = "," if len(fields) == 1 else ""
            return f"({', '.join(map(operand_text, fields))}{comma})"
        case TupleOfEach(field, least, most):
            return f"each[{least}..{most}] {operand_text(field)}"
        case PathFrom(_, origin, least, most):
            names = called_text(operand)
            return f"path[{least}..{most}] {names} from {operand_text(origin)}"
        case FieldOf(of, index):
            return f"{operand_text(of)}.{index}"
        case Repeat(call, least, most):
            return f"repeat[{least}..{most}] {operand_text(call)}"
        case Either(choices):
            return f"({' | '.join(map(operand_text, choices))})"
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


def _arguments(operands: tuple[Operand, ...], optional: bool) -> str:
    return f"{'?' * optional}({', '.join(map(operand_text, operands))})"


def _modifiers(call: Call) -> str:
    return f"{' ordered' * call.ordered}{' shared' * call.shared}"
