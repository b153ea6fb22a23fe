"""Attributes of the calls in a graph, as TVM would store them."""

from collections.abc import Mapping

from collage_dsl.graph import Attribute
from collage_dsl.graph.operators import Operator
from collage_dsl.graph.types import long_dtype
from collage_dsl.language import graph_syntax, syntax
from collage_dsl.language.calls import unknown_attribute
from collage_dsl.language.findings import Findings, listed

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

_PER_AXIS = ("strides", "dilation", "output_padding", "pool_size")
_LAYOUTS = {"data_layout": "out_layout", "layout": "out_layout"}


class _WrongTypeError(Exception):
    """A value does not have the type of its attribute."""


def check_attributes(
    operator: Operator, call: graph_syntax.GraphCall, findings: Findings
) -> Mapping[str, Attribute]:
    """What is written, and the defaults of what is not."""
    written: dict[str, Attribute] = {}
    for name, value in call.attributes:
        if name.text not in operator.attrs:
            unknown_attribute(operator, name, findings)
        elif name.text in written:
            findings.error("E0202", name.span, f"`{name.text}` is given twice")
        else:
            try:
                written[name.text] = _typed(value, operator.attrs[name.text])
            except _WrongTypeError:
                words = _WORDS[operator.attrs[name.text]]
                findings.error("E0205", value.span, f"`{name.text}` is {words}")
                written[name.text] = None
    missing = [a for a in operator.attrs if a not in written and a not in operator.defaults]
    needed = [a for a in missing if operator.attrs[a] != "object"]
    if needed:
        message = f"`{operator.name}` needs a value for {listed(needed, 'and')}"
        hint = f"write `[{needed[0]} = …]`"
        findings.error("E0602", call.span, message, hint)
    return _normal(operator, written)


def _typed(value: graph_syntax.Value, type_: str) -> Attribute:
    match value, type_:
        case graph_syntax.Nothing(), _:
            return None
        case syntax.Literal(bool() as truth), "bool":
            return truth
        case syntax.Literal(bool()), _:
            raise _WrongTypeError
        case syntax.Literal(int() as number), "int" | "int|ints" | "ints":
            return (number,) if type_ == "ints" else number
        case syntax.Literal(int() | float() as number), "float":
            return float(number)
        case syntax.Literal(str() as text), "str":
            return text
        case (syntax.Literal(str() as text), "dtype") | (syntax.Name(text), "dtype"):
            if dtype := long_dtype(text):
                return dtype
        case graph_syntax.LiteralList(items), "ints" | "int|ints":
            return tuple(_typed(item, "int") for item in items)
        case graph_syntax.LiteralList(items), "floats":
            return tuple(_typed(item, "float") for item in items)
    raise _WrongTypeError


def _normal(operator: Operator, written: Mapping[str, Attribute]) -> Mapping[str, Attribute]:
    """One number for all axes becomes one for each; a layout is that of the output too."""
    attrs = {**operator.defaults, **written}
    strides = operator.defaults.get("strides")
    for name, value in written.items():
        if isinstance(strides, tuple) and isinstance(value, tuple):
            attrs[name] = _for_each_axis(name, value, len(strides))
        output = _LAYOUTS.get(name)
        if output and output in operator.attrs and output not in written:
            attrs[output] = value
    return {name: attrs[name] for name in operator.attrs if name in attrs}


def _for_each_axis(name: str, value: tuple[Attribute, ...], rank: int) -> Attribute:
    """`value`, completed where it says less than TVM stores; padding is of both ends of an axis."""
    if name in _PER_AXIS and len(value) == 1:
        return value * rank
    if name == "padding" and len(value) in (1, rank):
        return value * (2 * rank // len(value))
    return value
