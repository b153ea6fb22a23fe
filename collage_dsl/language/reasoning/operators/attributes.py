"""Check and complete the attributes of a call in a graph, as TVM would store them."""

from collections.abc import Mapping

from collage_dsl.graph import Attribute
from collage_dsl.graph.operators import Operator, relax_operators
from collage_dsl.graph.types import long_dtype
from collage_dsl.language.messages.findings import Findings, listed
from collage_dsl.language.reasoning.operators.attribute_values import check_string, stored_length
from collage_dsl.language.reasoning.operators.calls import unknown_attribute
from collage_dsl.language.syntax import ast, graph_ast
from collage_dsl.rules.condition import Attr

_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "bool": "`true` or `false`",
    "str": "a string in double quotes",
    "dtype": "a dtype",
    "ints": "a list of whole numbers",
    "floats": "a list of numbers",
    "int|ints": "a whole number or a list of them",
    "object": "nothing that can be written here",
}

_LAYOUTS = {"data_layout": "out_layout", "layout": "out_layout"}


class _WrongTypeError(Exception):
    """A value does not have the type of its attribute."""


class _WrongLengthError(Exception):
    """TVM does not accept a list of this length; the message names the lengths that it accepts."""


def check_attributes(
    operator: Operator, call: graph_ast.GraphCall, findings: Findings
) -> Mapping[str, Attribute]:
    """The written attributes, and the defaults of the others."""
    written: dict[str, Attribute] = {}
    for name, value in call.attributes:
        if name.text not in operator.attrs:
            unknown_attribute(operator, name, findings)
        elif name.text in written:
            findings.error("E0202", name.span, f"`{name.text}` is given twice")
        else:
            try:
                typed = _typed(value, operator.attrs[name.text])
                written[name.text] = _completed(operator, name.text, typed)
                if isinstance(typed, str):
                    check_string(Attr(name.text), typed, (operator,), value.span, findings)
            except _WrongLengthError as error:
                findings.error("E0205", value.span, str(error))
                written[name.text] = None
            except _WrongTypeError:
                words = _WORDS[operator.attrs[name.text]]
                findings.error("E0205", value.span, f"`{name.text}` is {words}")
                written[name.text] = None
    needed = [a for a in operator.attrs if a not in written and _is_needed(operator, a)]
    if needed:
        message = f"`{operator.name}` needs a value for {listed(needed, 'and')}"
        hint = f"write `[{needed[0]} = …]`"
        findings.error("E0602", call.span, message, hint)
    return _normal(operator, written)


def _is_needed(operator: Operator, attribute: str) -> bool:
    """Whether a graph has to give a value. A node of ONNX may lack what is then none."""
    if operator.name not in relax_operators() and attribute in operator.may_be_none:
        return False
    return attribute not in operator.defaults and operator.attrs[attribute] != "object"


def _typed(value: graph_ast.Value, type_: str) -> Attribute:
    match value, type_:
        case graph_ast.Nothing(), _:
            return None
        case ast.Literal(bool() as truth), "bool":
            return truth
        case ast.Literal(bool()), _:
            raise _WrongTypeError
        case ast.Literal(int() as number), "int" | "int|ints" | "ints":
            return (number,) if type_ == "ints" else number
        case ast.Literal(int() | float() as number), "float":
            return float(number)
        case ast.Literal(str() as text), "str":
            return text
        case (ast.Literal(str() as text), "dtype") | (ast.Name(text), "dtype"):
            if dtype := long_dtype(text):
                return dtype
        case graph_ast.LiteralList(items), "ints" | "int|ints":
            return tuple(_typed(item, "int") for item in items)
        case graph_ast.LiteralList(items), "floats":
            return tuple(_typed(item, "float") for item in items)
    raise _WrongTypeError


def _completed(operator: Operator, name: str, value: Attribute) -> Attribute:
    """Repeat one number for every axis; one padding per axis also stands for both its ends."""
    length = stored_length(operator, name)
    if length is None or not isinstance(value, tuple):
        return value
    lengths = {1, length // 2, length} if name == "padding" else {1, length}
    if len(value) not in lengths:
        *fewer, most = sorted(lengths)
        known = f"{', '.join(map(str, fewer))} or {most} numbers" if fewer else "1 number"
        raise _WrongLengthError(f"`{name}` of `{operator.name}` is {known}, not {len(value)}")
    return value * (length // len(value))


def _normal(operator: Operator, written: Mapping[str, Attribute]) -> Mapping[str, Attribute]:
    """Add the defaults; the output layout defaults to the written input layout."""
    attrs = {**operator.defaults, **written}
    for name, value in written.items():
        output = _LAYOUTS.get(name)
        if output and output in operator.attrs and output not in written:
            attrs[output] = value
    return {name: attrs[name] for name in operator.attrs if name in attrs}
