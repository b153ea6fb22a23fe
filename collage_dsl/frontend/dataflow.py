"""Keep the Relax bindings that a graph was read from together with the graph."""

from dataclasses import dataclass, field
from typing import Any

import tvm
from tvm import relax

from collage_dsl.graph import Graph


@dataclass(frozen=True, slots=True, eq=False)
class Dataflow:
    """
    Bindings that compute values one after the other, and their graph.

    Values from outside are parameters of the graph. The result of a binding that is no node, such
    as a call of a function, is a parameter too; such a parameter has inputs. `bound` has for each
    binding the node of its variable. `origins` has for each node the expression that it was made
    from: a variable, a constant, a literal or a call; None for a tuple or a projection.

    If the bindings are all bindings of a function of `module`, `name` is that function. `name` is
    empty if they are one dataflow block of a larger function.
    """

    graph: Graph
    bindings: tuple[Any, ...]
    bound: tuple[int, ...]
    origins: tuple[Any, ...] = field(repr=False)
    module: Any = field(default=None, repr=False)
    name: str = ""


def is_value(expr: Any) -> bool:
    """Whether `expr` is a variable of Relax, and not a dimension, which has the same class."""
    return isinstance(expr, tvm.ir.Var) and not tvm.ir.is_prim_expr(expr)


def values_in(binding: Any) -> list[Any]:
    """
    The variables that a binding uses from outside, without those of dimensions. A function that
    calls itself does not count itself.
    """
    found = [var for var in relax.analysis.free_vars(binding.value) if is_value(var)]
    return [var for var in found if not var.same_as(binding.var)]
