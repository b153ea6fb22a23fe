"""Import and call predicates that are functions in Python modules."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from types import MappingProxyType

from collage_dsl.graph import Attribute, Dim, Form, Graph, Node, TensorType
from collage_dsl.rules.predicate import (
    Answer,
    Lookup,
    Predicate,
    PredicateError,
    Question,
    no_host_code,
)


@dataclass(frozen=True, slots=True)
class Value:
    """
    A value of the model, as a predicate sees it.

    `op` is empty if the value is not the result of an operator. `dtype`, `shape` and `rank` are
    None if the value is not a tensor or they are not known. A symbolic dimension is a string.
    `value` is the array of a constant; None if it is not a constant or was not loaded.
    """

    name: str
    op: str
    dtype: str | None
    shape: tuple[Dim, ...] | None
    rank: int | None
    attrs: Mapping[str, Attribute]
    value: object
    is_constant: bool


Function = Callable[..., object]
"""
A predicate. It gets a `Value` for each parameter, or None for an absent optional one. It returns
True or None if it holds, and False or the reason if it does not hold.
"""


def host_code(*, allow: bool) -> Lookup:
    """
    The lookup of `package.module:function`. It imports a module when a predicate is first asked.

    If host code is not allowed, nothing is imported. A function that does not exist, that raises,
    or that returns something wrong is a `PredicateError`, never a refusal.
    """
    if not allow:
        return no_host_code
    return cache(_answer)


def _answer(predicate: Predicate) -> Answer:
    function = _function(predicate)

    def answer(question: Question) -> str:
        values = (_value(question.graph, index) for index in question.operands.values())
        try:
            answered = function(*values)
        except Exception as error:  # code of the user may raise anything
            said = f"raised {type(error).__name__}: {error}"
            raise _failed(predicate, question, said) from error
        return _reason(predicate, question, answered)

    return answer


def _function(predicate: Predicate) -> Function:
    module, _, path = predicate.source.partition(":")
    try:
        found: object = import_module(module)
        for name in path.split("."):
            found = getattr(found, name)
    except Exception as error:  # a module may raise anything when it is imported
        raise PredicateError(
            f"predicate `{predicate.name}` cannot be had from {predicate.source}: "
            f"{type(error).__name__}: {error}"
        ) from error
    if not callable(found):
        raise PredicateError(
            f"predicate `{predicate.name}` cannot be had from {predicate.source}: "
            "that is no function"
        )
    return found


def _reason(predicate: Predicate, question: Question, answered: object) -> str:
    if answered is None:
        return ""
    if isinstance(answered, str) and answered:
        return answered
    if isinstance(answered, bool) or type(answered).__name__ in ("bool_", "bool"):  # numpy's too
        return "" if answered else f"predicate `{predicate.name}` refuses"
    said = f"returned {answered!r:.60}, which is neither true or false nor a reason"
    raise _failed(predicate, question, said)


def _failed(predicate: Predicate, question: Question, said: str) -> PredicateError:
    node = question.graph.nodes[question.root].name
    source = predicate.source
    return PredicateError(f"predicate `{predicate.name}` from {source}, asked at `{node}`, {said}")


def _value(graph: Graph, index: int | None) -> Value | None:
    if index is None:
        return None
    node = graph.nodes[index]
    tensor = node.type if isinstance(node.type, TensorType) else None
    return Value(
        name=node.name,
        op=node.op,
        dtype=None if tensor is None else tensor.dtype,
        shape=None if tensor is None else tensor.shape,
        rank=None if tensor is None else tensor.rank,
        attrs=MappingProxyType(dict(node.attrs)),
        value=_content(node),
        is_constant=node.form is Form.CONSTANT,
    )


def _content(node: Node) -> object:
    return node.value if node.form in (Form.CONSTANT, Form.LITERAL) else None
