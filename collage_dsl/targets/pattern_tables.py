"""The `check` of a registered pattern, asked about a match in a graph."""

from functools import cache, lru_cache
from importlib import import_module
from typing import Any

import numpy as np
from tvm.relax.backend.pattern_registry import get_patterns_with_prefix
from tvm.relax.transform import PatternCheckContext
from tvm_ffi import Map

from collage_dsl.frontend.to_relax import literal, to_relax
from collage_dsl.graph import Form, Graph, Node, TensorType, members
from collage_dsl.language.pattern_tables import SOURCE, NoTableError, parted, registered
from collage_dsl.rules.predicate import Answer, Predicate, PredicateError, Question
from collage_dsl.targets.registered_tables import registered_check

_SMALL = 16
"""Constants of at most this many elements keep their values: TVM's checks look at scales."""


def table_check(predicate: Predicate, *, allow_extern: bool = False) -> Answer:
    """
    What the check of a pattern says of a match: of one of TVM's tables, or of one that was
    registered in this process, whose module may be imported where `allow_extern` says so.

    Raises PredicateError where no table has such a check, and the answer does where the check
    itself fails.
    """
    shipped = registered(predicate.source)
    if shipped is not None:
        import_module(shipped.module)
        check = _check(shipped.name, shipped.place)
        return _answer(shipped.name, check, whole=False)
    said = predicate.source.removeprefix(SOURCE)
    return _answer(parted(said)[1], _registered_check(said, allow_extern), whole=True)


def _registered_check(said: str, allow_extern: bool) -> Any:
    message = f"no pattern of TVM's tables has a check from {SOURCE}{said}"
    try:
        check = registered_check(said, allow_extern=allow_extern)
    except NoTableError as problem:
        raise PredicateError(f"{message}: {problem}") from problem
    if check is None:
        refused = parted(said)[0] and not allow_extern
        how = "--allow-extern lets its module be imported" if refused else "import its module first"
        raise PredicateError(f"{message}: {how}")
    return check


def _answer(name: str, check: Any, *, whole: bool) -> Answer:
    """The answer of a check, which with `whole` sees the values of all constants."""

    def answer(question: Question) -> str:
        try:
            holds = check(_program(question.graph, whole).context(question))
        except Exception as error:  # whatever the code of a table may raise
            node = question.graph.nodes[question.root].name
            said = f"{type(error).__name__}: {error}"
            message = f"the check of {name}, asked at `{node}`, raised {said}"
            raise PredicateError(message) from error
        return "" if holds else f"the check of {name} refuses"

    return answer


@cache
def _check(name: str, place: int) -> Any:
    """The check of what was registered under `name` at that place among its namesakes."""
    named = [p for p in reversed(list(get_patterns_with_prefix(name))) if p.name == name]
    return named[place].check


@lru_cache(maxsize=2)
def _program(graph: Graph, whole: bool) -> "_Program":
    return _Program(graph, whole)


class _Program:
    """
    A graph as one Relax function: for each node the variable it is bound to, if it is, and its
    value. A parameter is its own value, as in what TVM tells a check.
    """

    def __init__(self, graph: Graph, whole: bool) -> None:
        self.graph = graph
        light = _light(graph, whole)
        (function,) = to_relax(light).functions.values()  # named as TVM can say the graph's name
        bindings = [binding for block in function.body.blocks for binding in block.bindings]
        variables = {str(var.name): var for var in function.params}
        values = dict(variables)
        for binding in bindings:
            variables[str(binding.var.name)] = binding.var
            values[str(binding.var.name)] = binding.value
        for node in light.nodes:
            if node.form in (Form.CONSTANT, Form.LITERAL):
                values[node.name] = literal(node, {})
        self.variables = [variables.get(node.name) for node in graph.nodes]
        self.values = [values.get(node.name) for node in graph.nodes]
        bound = [i for i, variable in enumerate(self.variables) if variable is not None]
        self.usages = Map({self.variables[i]: self.users(i) for i in bound})
        computed = [i for i in bound if graph.computed >> i & 1]
        self.bound_to = Map({self.values[i]: self.variables[i] for i in computed})

    def users(self, index: int) -> list[Any]:
        """The variables of what uses a node; a tuple that has none stands for what uses it."""
        found: list[Any] = []
        for user in members(self.graph.users_of[index]):
            variable = self.variables[user]
            found += self.users(user) if variable is None else [variable]
        return found

    def context(self, question: Question) -> Any:
        inside = [i for i in members(question.inside) if self.variables[i] is not None]
        annotated = {
            name: self.values[index]
            for name, index in question.operands.items()
            if index is not None and self.values[index] is not None
        }
        return PatternCheckContext(
            self.values[question.root],
            annotated,
            {self.variables[i]: self.values[i] for i in inside},
            self.usages,
            self.bound_to,
        )


def _light(graph: Graph, whole: bool) -> Graph:
    """
    `graph` with a value for every constant. Where it need not be `whole`, only the small ones
    have their own: weights are not copied, and no check of TVM's reads them. One whose value is
    not known, and which a check may read, is given none that a check looks for.
    """
    return Graph(
        (_with_value(node, whole) for node in graph.nodes),
        graph.outputs,
        name=graph.name,
        returns_tuple=graph.returns_tuple,
        output_names=graph.output_names,
    )


def _with_value(node: Node, whole: bool) -> Node:
    if node.form is not Form.CONSTANT or not isinstance(node.type, TensorType):
        return node
    is_read = whole or (node.type.size is not None and node.type.size <= _SMALL)
    if is_read and node.value is not None:
        return node
    value = _unknown(node.type) if is_read else np.empty(node.type.static_shape, node.type.dtype)
    return Node(node.name, node.form, node.type, value=value)


def _unknown(type_: TensorType) -> Any:
    dtype = np.dtype(type_.dtype)
    whole = {"i": -1, "u": 1, "b": True}
    return np.full(type_.static_shape, whole.get(dtype.kind, np.nan), dtype)
