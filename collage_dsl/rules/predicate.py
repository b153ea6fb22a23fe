"""Predicates that are host code: declared in a spec, found by the caller, run when matching."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from collage_dsl.graph import Graph, OpSet


@dataclass(frozen=True, slots=True)
class Predicate:
    """
    `extern predicate fits(x, w) from "acme.predicates:fits";`

    `source` says where the code is: `package.module:function`, or, for the `check` of one of
    TVM's own patterns, `pattern_table:cutlass.conv2d_bias`.
    """

    name: str
    parameters: tuple[str, ...]
    source: str


@dataclass(frozen=True, slots=True)
class Question:
    """What a predicate is asked: the match so far, and the node of each of its parameters."""

    graph: Graph = field(repr=False)
    inside: OpSet
    root: int
    operands: Mapping[str, int | None]
    """By parameter, in order; None for an optional node that is not there."""


Answer = Callable[[Question], str]
"""Why the predicate refuses; empty where it holds."""

Lookup = Callable[[Predicate], Answer]
"""The code of a predicate. Raises PredicateError where it is not allowed or not there."""


class PredicateError(Exception):
    """A predicate cannot be asked: its code is not allowed, not there, or failed."""


def no_host_code(predicate: Predicate) -> Answer:
    """The lookup that allows none."""
    raise PredicateError(
        f"predicate `{predicate.name}` is host code from {predicate.source}, which is not allowed "
        "here (--allow-extern allows it)"
    )
