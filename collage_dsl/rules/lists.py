"""Compare a list in a pattern with a literal of a model."""

from collage_dsl.graph import Dim, Form, Node
from collage_dsl.rules.pattern import OPEN, ListOf
from collage_dsl.rules.written import list_text


def list_refusal(wanted: ListOf, node: Node) -> str:
    """Why `node` is not the list that is wanted; empty if it is."""
    if node.form is not Form.LITERAL or not isinstance(node.value, tuple):
        return f"`{node.name}` is not a list"
    given = len(node.value)
    numbers = wanted.items_at(given)
    if numbers is None:
        least = "at least " * (OPEN in wanted.items)
        many = len(wanted.items) - (OPEN in wanted.items)
        return f"`{node.name}` has {given} items, not {least}{many} as in {list_text(wanted)}"
    for at, number in numbers:
        if node.value[at] != number:
            return f"item {at} of `{node.name}` is {node.value[at]}, not {number}"
    return ""


def dims_of_list(node: Node) -> tuple[Dim, ...] | None:
    """The items of a literal list of whole numbers and symbols; None if it is none."""
    if node.form is not Form.LITERAL or not isinstance(node.value, tuple):
        return None
    items = tuple(item for item in node.value if isinstance(item, int | str))
    return items if len(items) == len(node.value) else None


def are_equal_literals(left: Node, right: Node) -> bool:
    """Whether two nodes are the same literal, written twice: each call has nodes of its own."""
    is_literal = left.form is right.form is Form.LITERAL
    return is_literal and left.type == right.type and left.value == right.value
