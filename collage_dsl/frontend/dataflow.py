"""The Relax bindings that a graph is a view of."""

from dataclasses import dataclass, field
from typing import Any

import tvm
from tvm import relax

from collage_dsl.graph import Graph


@dataclass(frozen=True, slots=True, eq=False)
class Dataflow:
    """
    Bindings that compute values one after the other, and their graph.

    Values from outside are parameters of the graph. So is the result of a binding that is no
    node, such as the call of a function; such a parameter has inputs. `bound` has for each binding
    the node that its variable stands for. `origins` has for each node the expression that it was
    made from: a variable, a constant, a literal or a call; None for a tuple or a projection.

    `name` is the function of `module` that the bindings are all of; it is empty where they are
    one dataflow block of a larger function.
    """

    graph: Graph
    bindings: tuple[Any, ...]
    bound: tuple[int, ...]
    origins: tuple[Any, ...] = field(repr=False)
    module: Any = field(default=None, repr=False)
    name: str = ""


def is_value(expr: Any) -> bool:
    """Whether `expr` is a variable of Relax. The variable of a dimension has the same class."""
    return isinstance(expr, tvm.ir.Var) and not tvm.ir.is_prim_expr(expr)


def values_in(binding: Any) -> list[Any]:
    """
    The variables that a binding takes from outside, without those of dimensions. A function that
    calls itself does not take itself.
    """
    found = [var for var in relax.analysis.free_vars(binding.value) if is_value(var)]
    return [var for var in found if not var.same_as(binding.var)]
