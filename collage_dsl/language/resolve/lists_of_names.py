"""What to write instead of a list with names and calculations, which conditions do not have."""

from collage_dsl.language.messages.advice import dtype_meant, none_meant, truth_meant
from collage_dsl.language.messages.hints import Hint, write
from collage_dsl.language.resolve.condition_scope import Scope
from collage_dsl.language.resolve.sorts import Sort, Typed, dtype_of
from collage_dsl.language.syntax import ast
from collage_dsl.rules import condition as rules

_MOST = 4
"""The longest list whose items are all written out in a hint."""


def first_unknown(written: ast.List) -> ast.Expression | None:
    """
    The first item, also of a list in the list, that depends on what is matched: a name of neither a
    dtype nor a word, or a calculation with one.
    """
    for item in written.items:
        if isinstance(item, ast.List):
            if found := first_unknown(item):
                return found
        elif _depends(item):
            return item
    return None


def _depends(item: ast.Expression) -> bool:
    match item:
        case ast.Name():
            return not _is_constant(item)
        case ast.Application() | ast.Index():
            return True
        case ast.Operation(_, left, right):
            return (left is not None and _depends(left)) or _depends(right)
        case _:
            return False


def _is_constant(name: ast.Name) -> bool:
    text = name.text
    is_word = text == "none" or none_meant(text) or truth_meant(text)
    return bool(is_word or dtype_of(name) or dtype_meant(text))


def instead_of_list(operator: str, of: Typed, written: ast.List, scope: Scope) -> Hint:
    """A hint what to write instead of the comparison of `of` with the list `written`."""
    items = [item.span.text for item in written.items]
    unknown = first_unknown(written)
    assert unknown is not None
    text = unknown.span.text
    at = items.index(text) if text in items else 0
    if isinstance(of.value, rules.Attr) and isinstance(unknown, ast.Name):
        return _in_where(of.value.name, of, at, unknown, scope)
    if operator == "in":
        equal = [f"{of.span.text} == {item}" for item in items]
        whole = f"({' or '.join(equal)})"
        is_short = of.sort is Sort.NUMBER and len(items) <= _MOST
        return Hint(f"write `{whole}`", whole) if is_short else Hint("write a comparison for each")
    match of.value:
        case rules.Shape(value) if (parameter := scope.parameter(value)) and _are_sizes(written):
            sort = f"{'?' * parameter.optional}: {'const & ' * parameter.constant}"
            return Hint(f"name the dimensions of the parameter: `{value}{sort}{written.span.text}`")
        case rules.Shape(value):
            if operator == "==" and len(items) <= _MOST:
                equal = [f"dim({value}, {axis}) == {item}" for axis, item in enumerate(items)]
                return write(f"({' and '.join((f'rank({value}) == {len(items)}', *equal))})")
            return Hint(f"compare the dimensions one by one: `dim({value}, {at}) == {text}`")
        case _:
            return Hint(f"compare the elements: `{of.span.text}[{at}] == {text}`")


def _are_sizes(written: ast.List) -> bool:
    """Whether each item can be a dimension of a parameter: a number, or a name without dots."""
    names = [item.text for item in written.items if isinstance(item, ast.Name)]
    numbers = [item for item in written.items if isinstance(item, ast.Literal)]
    is_plain = all("." not in name for name in names)
    return is_plain and len(names) + len(numbers) == len(written.items)


def _in_where(attribute: str, of: Typed, at: int, name: ast.Name, scope: Scope) -> Hint:
    """A hint for an attribute in brackets, where dimensions have no names."""
    owner = scope.owners(ast.Name(attribute, of.span))[0]
    element = attribute if of.sort is Sort.NUMBER else f"{attribute}[{at}]"
    if name.text in owner.attrs:
        return Hint(f"compare `{element} == {name.text}`")
    words = f"names of dimensions stand in `where`: `y.{element} == {name.text}`"
    return Hint(f"{words} for `y = {owner.name}(…)`")
