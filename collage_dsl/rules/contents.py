"""
Read the elements of constants, for conditions about them.

Least and greatest are found once for each constant and kept as long as its array. They are found
without a copy, because a constant may have gigabytes.
"""

import weakref
from contextlib import suppress
from dataclasses import dataclass
from math import isnan
from typing import Any

from collage_dsl.graph import Form, Node, TensorType

Number = int | float

MOST_COMPARED = 1 << 28
"""The most elements of a constant whose least and greatest are looked for."""

MOST_LISTED = 1 << 14
"""The most elements that are looked at one by one."""


@dataclass(frozen=True, slots=True)
class Ends:
    """The least and the greatest element of a constant; `unknown` says why they are not known."""

    least: Number = 0
    most: Number = 0
    unknown: str = ""


def ends(node: Node | None) -> Ends:
    """The least and the greatest element. They are unknown if an element is not a number (NaN)."""
    if node is None:
        return Ends(unknown="it is not there")
    if why := _unreadable(node):
        return Ends(unknown=why)
    if node.tensor.size == 0:
        return Ends(unknown="it has no elements")
    kept = _KEPT.get(id(node.value))
    if kept is not None and kept[0]() is node.value:
        return kept[1]
    found = _ends(node.value, node.tensor.dtype)
    key = id(node.value)
    with suppress(TypeError):  # not everything can be referred to weakly
        _KEPT[key] = (weakref.ref(node.value, lambda _: _KEPT.pop(key, None)), found)
    return found


_KEPT: dict[int, tuple[weakref.ref[Any], Ends]] = {}
"""By the id of an array: the array, and its least and greatest element."""


def is_empty(node: Node | None) -> bool:
    """Whether it is known to be a tensor without elements."""
    return node is not None and isinstance(node.type, TensorType) and node.type.size == 0


def listed(node: Node | None) -> tuple[Number, ...] | str:
    """The elements in row-major order, or why they are not known."""
    if is_empty(node):
        return ()
    if why := ends(node).unknown:
        return why
    assert node is not None
    size = node.tensor.size or 0
    if size > MOST_LISTED:
        return f"it has {size} elements, and at most {MOST_LISTED} are looked at one by one"
    values: Any = node.value
    return tuple(_number(each, node.tensor.dtype) for each in values.ravel().tolist())


def _unreadable(node: Node) -> str:
    """Why the elements cannot be read; empty if they can."""
    if node.form is not Form.CONSTANT or not isinstance(node.type, TensorType):
        return "it is not a constant"
    if node.value is None:
        return "its elements are not given"
    if not node.type.dtype.startswith(("int", "uint", "float", "bfloat", "bool")):
        return f"its elements are {node.type.dtype}"
    if (node.type.size or 0) > MOST_COMPARED:
        return f"it has {node.type.size} elements, and at most {MOST_COMPARED} are compared"
    return ""


def _ends(values: Any, dtype: str) -> Ends:
    least, most = _number(values.min(), dtype), _number(values.max(), dtype)
    if isnan(least) or isnan(most):
        return Ends(unknown="it has elements that are not numbers (NaN)")
    return Ends(least, most)


def _number(element: Any, dtype: str) -> Number:
    """An element as a number of Python; whole numbers stay exact."""
    return float(element) if "float" in dtype else int(element)
