"""Check the arguments of functions that users call from Python against their annotations."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import cache, wraps
from os import PathLike
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

_Function = TypeVar("_Function", bound=Callable[..., Any])

_WORDS: Mapping[Any, str] = {
    str: "a string",
    int: "a whole number",
    float: "a number",
    bool: "True or False",
    NoneType: "None",
    Path: "a path",
    PathLike: "a path",
}
_MANY: Mapping[Any, str] = {tuple: "a tuple", list: "a list", Sequence: "a list or a tuple"}


def with_checked_types(*left_out: str) -> Callable[[_Function], _Function]:
    """
    Make a function raise TypeError for an argument that is not of the annotated type, except
    those that are `left_out`: the function checks them itself.
    """

    def decorate(function: _Function) -> _Function:
        signature = inspect.signature(function)

        @wraps(function)
        def checked(*args: Any, **named: Any) -> Any:
            try:
                given = signature.bind(*args, **named)
            except TypeError:
                return function(*args, **named)  # Python's own error names the function
            for name, value in given.arguments.items():
                hint = _hints(function).get(name, Any)
                is_many = signature.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL
                for each in value if is_many else (value,):
                    if name not in left_out and not _is_a(each, hint):
                        said = f"`{name}` of `{function.__name__}` must be {_words(hint)}"
                        raise TypeError(f"{said}, not {_shown(each)}")
            return function(*args, **named)

        return checked  # type: ignore[return-value]

    return decorate


@cache
def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    """The types of arguments; read at the first call, when all classes are defined."""
    return get_type_hints(function)


def _is_a(value: object, hint: Any) -> bool:
    """Whether `value` has the type `hint`. A truth value is no number; a string is no sequence."""
    if hint is Any:
        return True
    origin, inner = get_origin(hint) or hint, get_args(hint)
    if origin in (Union, UnionType):
        return any(_is_a(value, each) for each in inner)
    if origin is Literal:
        return any(value is each or (type(value) is type(each) and value == each) for each in inner)
    if origin in (int, float):
        return isinstance(value, int | origin) and not isinstance(value, bool | Enum)
    if origin is Path:
        return isinstance(value, PathLike)
    if origin is Mapping:
        return isinstance(value, Mapping) and all(
            _is_a(key, inner[0]) and _is_a(each, inner[1]) for key, each in value.items()
        )
    if origin in _MANY:
        if not isinstance(value, Sequence) or not isinstance(value, origin):
            return False
        return not isinstance(value, str) and all(_is_a(each, inner[0]) for each in value)
    return isinstance(value, origin)


def _words(hint: Any) -> str:
    """`hint` for a message."""
    origin, inner = get_origin(hint) or hint, get_args(hint)
    if origin in (Union, UnionType):
        return " or ".join(map(_words, inner))
    if origin is Literal:
        return " or ".join(map(repr, inner))
    if origin is Mapping:
        return f"a mapping from {_words(inner[0])} to {_words(inner[1])}"
    if origin in _MANY:
        return f"{_MANY[origin]} whose items are each {_words(inner[0])}"
    name = str(getattr(origin, "__name__", origin))
    return _WORDS.get(origin) or f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"


def _shown(value: object) -> str:
    """`value` for a message, or its type."""
    is_plain = isinstance(value, NoneType | bool | int | float | str | dict | list | tuple)
    is_short = is_plain and len(repr(value)) < 40
    return repr(value) if is_short else f"a value of type {type(value).__name__}"
