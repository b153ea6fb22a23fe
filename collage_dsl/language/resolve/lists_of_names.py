"""What to write instead of a list with names of dimensions, which conditions do not have."""

from collage_dsl.language.messages.advice import dtype_meant, none_meant, truth_meant
from collage_dsl.language.messages.hints import Hint
from collage_dsl.language.resolve.condition_scope import Scope
from collage_dsl.language.resolve.sorts import Sort, Typed, dtype_of
from collage_dsl.language.syntax import ast
from collage_dsl.rules import condition as rules

_MOST = 4
"""The longest list whose items are all written out in a hint."""


def first_name(written: ast.List) -> ast.Name | None:
    """The first item, also of a list in the list, that names neither a dtype nor a word."""
    for item in written.items:
        match item:
            case ast.Name() if not _is_constant(item):
                return item
            case ast.List() if name := first_name(item):
                return name
    return None


def _is_constant(name: ast.Name) -> bool:
    text = name.text
    is_word = text == "none" or none_meant(text) or truth_meant(text)
    return bool(is_word or dtype_of(name) or dtype_meant(text))


def instead_of_list(operator: str, of: Typed, written: ast.List, scope: Scope) -> Hint:
    """A hint what to write instead of the comparison of `of` with the list `written`."""
    items = [item.span.text for item in written.items]
    name = first_name(written)
    assert name is not None
    at = items.index(name.text) if name.text in items else 0
    if isinstance(of.value, rules.Attr):
        return _in_where(of.value.name, of, at, name, scope)
    if operator == "in":
        equal = [f"{of.span.text} == {item}" for item in items]
        whole = f"({' or '.join(equal)})"
        is_short = of.sort is Sort.NUMBER and len(items) <= _MOST
        return Hint(f"write `{whole}`", whole) if is_short else Hint("write a comparison for each")
    match of.value:
        case rules.Shape(value) if (parameter := scope.parameter(value)) and "." not in name.text:
            sort = f"{'?' * parameter.optional}: {'const & ' * parameter.constant}"
            return Hint(f"name the dimensions of the parameter: `{value}{sort}{written.span.text}`")
        case rules.Shape(value):
            words = f"compare the dimensions one by one: `dim({value}, {at}) == {name.text}`"
            return Hint(words)
        case _:
            return Hint(f"compare the elements: `{of.span.text}[{at}] == {name.text}`")


def _in_where(attribute: str, of: Typed, at: int, name: ast.Name, scope: Scope) -> Hint:
    """A hint for an attribute in brackets, where dimensions have no names."""
    owner = scope.owners(ast.Name(attribute, of.span))[0]
    element = attribute if of.sort is Sort.NUMBER else f"{attribute}[{at}]"
    if name.text in owner.attrs:
        return Hint(f"compare `{element} == {name.text}`")
    words = f"names of dimensions stand in `where`: `y.{element} == {name.text}`"
    return Hint(f"{words} for `y = {owner.name}(…)`")
