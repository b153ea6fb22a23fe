"""Find the operators in the classes of a file."""

from collections.abc import Iterable

from collage_dsl.graph.operators import operators
from collage_dsl.language.syntax import ast


def operators_called(file: ast.File, names: Iterable[str]) -> tuple[str, ...]:
    """The operators that `names` stand for, each once: operators, and classes of `file`."""
    found: dict[str, None] = {}
    for name in names:
        found |= dict.fromkeys((name,) if name in operators() else members(file, name))
    return tuple(found)


def members(file: ast.File, name: str) -> list[str]:
    """The operators in the class `name` of `file`, each once."""
    classes = {item.name.text: item.value for item in file.items if isinstance(item, ast.Let)}
    found: dict[str, None] = {}
    seen = {name}
    waiting = [name]
    while waiting:
        named = [
            argument.value.text
            for argument in getattr(classes.get(waiting.pop()), "arguments", ())
            if isinstance(argument.value, ast.Name)
        ]
        found |= dict.fromkeys(text for text in named if text in operators())
        inner = [text for text in dict.fromkeys(named) if text in classes.keys() - seen]
        seen.update(inner)
        waiting += reversed(inner)
    return list(found)
