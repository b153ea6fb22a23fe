"""Ask the `check` function of a pattern in TVM's registry about a match in a graph."""

from collections.abc import Iterator
from functools import cache, lru_cache
from importlib import import_module
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.relax.backend.pattern_registry import get_patterns_with_prefix
from tvm.relax.transform import PatternCheckContext
from tvm_ffi import Map, structural_map

from collage_dsl.frontend.arrays import constant
from collage_dsl.frontend.to_relax import dataflow_of
from collage_dsl.graph import Form, Graph, Node, TensorType, members, opset
from collage_dsl.language.resolve.pattern_tables import NoTableError, parted, registered
from collage_dsl.rules.predicate import PATTERN_TABLE, Answer, Predicate, PredicateError, Question
from collage_dsl.targets.registered_tables import registered_check


def table_check(predicate: Predicate, *, allow_extern: bool = False) -> Answer:
    """
    The check of a pattern in one of TVM's tables, or of a pattern that was registered in this
    process. `allow_extern` allows to import the module that registers it.

    Raises PredicateError if no table has such a check. The answer raises it if the check itself
    fails.
    """
    shipped = registered(predicate.source)
    if shipped is not None:
        import_module(shipped.module)
        check = _check(shipped.name, shipped.place)
        return _answer(shipped.name, check)
    said = predicate.source.removeprefix(PATTERN_TABLE)
    return _answer(parted(said)[1], _registered_check(said, allow_extern))


def _registered_check(said: str, allow_extern: bool) -> Any:
    message = f"no pattern of TVM's tables has a check from {PATTERN_TABLE}{said}"
    try:
        check = registered_check(said, allow_extern=allow_extern)
    except NoTableError as problem:
        raise PredicateError(f"{message}: {problem}") from problem
    if check is None:
        refused = parted(said)[0] and not allow_extern
        allowed = "the argument `allow_extern` lets its module be imported"
        how = allowed if refused else "import its module first"
        raise PredicateError(f"{message}: {how}")
    return check


def _answer(name: str, check: Any) -> Answer:
    """The answer of the check of the pattern `name`."""

    def answer(question: Question) -> str:
        try:
            holds = check(_program(question.graph).context(question))
        except Exception as error:  # the code of a table may raise anything
            node = question.graph.nodes[question.root].name
            said = f"{type(error).__name__}: {error}"
            message = f"the check of {name}, asked at `{node}`, raised {said}"
            raise PredicateError(message) from error
        return "" if holds else f"the check of {name} refuses"

    return answer


@cache
def _check(name: str, place: int) -> Any:
    """The check of the pattern `name`; `place` counts the patterns with the same name."""
    named = [p for p in reversed(list(get_patterns_with_prefix(name))) if p.name == name]
    return named[place].check


@lru_cache(maxsize=2)
def _program(graph: Graph) -> "_Program":
    return _Program(graph)


class _Program:
    """
    The bindings that a graph is a view of, in the form that a check gets from TVM: for each node
    its value, and the variable that it is bound to, if any. A parameter is its own value.

    A variable that is not used outside of the graph becomes a variable of a dataflow block.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.flow = dataflow_of(graph)
        self.variables: list[Any] = [None] * len(graph)
        self.values: list[Any] = list(self.flow.origins)
        for binding, index in zip(self.flow.bindings, self.flow.bound, strict=True):
            if self.variables[index] is None:
                self.variables[index], self.values[index] = binding.var, binding.value
        for index in members(graph.parameters):
            self.variables[index] = self.values[index] = self.flow.origins[index]
        self.substitute()
        for index in members(graph.computed):
            if self.values[index] is None:
                self.values[index] = self.written(graph.nodes[index])
        bound = [i for i, variable in enumerate(self.variables) if variable is not None]
        self.usages = Map({self.variables[i]: self.users(i) for i in bound})
        computed = [i for i in bound if graph.computed >> i & 1]
        self.bound_to = Map({self.values[i]: self.variables[i] for i in computed})

    def substitute(self) -> None:
        """Put local variables, and constants where values are missing, into all values."""
        new = {hash(old): expr for old, expr in self.substitutes()}
        if not new:
            return

        def changed(expr: Any) -> Any:
            replaced = (tvm.ir.Var, lambda var: new.get(hash(var), var))
            return None if expr is None else structural_map(expr, replaced)

        self.variables = [new.get(hash(each), each) for each in self.variables]
        self.values = [changed(each) for each in self.values]

    def substitutes(self) -> Iterator[tuple[Any, Any]]:
        graph = self.graph
        for index in members(graph.constants):
            if graph.nodes[index].value is None:
                type_ = graph.nodes[index].tensor
                yield self.flow.origins[index], _stand_in(type_)
        for index in members(graph.computed & ~opset(graph.outputs)):
            variable = self.variables[index]
            if variable is not None and not isinstance(variable, relax.DataflowVar):
                yield variable, relax.DataflowVar(variable.name, variable.ty)

    def written(self, node: Node) -> Any:
        """A tuple or projection that has no variable and is written inside its user."""
        known = [(self.variables[i], self.values[i]) for i in node.inputs]
        operands = [value if variable is None else variable for variable, value in known]
        if node.form is Form.TUPLE:
            return relax.Tuple(operands)
        return relax.TupleGetItem(operands[0], node.value)

    def users(self, index: int) -> list[Any]:
        """The variables of the users of a node; for a tuple without variable, of its users."""
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


def _stand_in(type_: TensorType) -> Any:
    """A constant for one whose value is not known. No check looks for the value that it has."""
    dtype = np.dtype(type_.dtype)
    whole = {"i": -1, "u": 1, "b": True}
    return constant(np.full(type_.static_shape, whole.get(dtype.kind, np.nan), dtype))
