"""Predicates that are host code: declared in a spec, found by the caller, run when matching."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from collage_dsl.graph import Graph, OpSet

BACKEND = "backend:"
"""How the sources of predicates begin that are what a backend says it supports."""


@dataclass(frozen=True, slots=True)
class Predicate:
    """
    `extern predicate fits(x, w) from "acme.predicates:fits";`

    `source` says where the code is: `package.module:function`, or, for the `check` of one of
    TVM's own patterns, `pattern_table:cutlass.conv2d_bias`. What a backend says it supports is
    `backend:NAME`: no file declares that, the rule `op_predicate("NAME.supports")` asks it.
    """

    name: str
    parameters: tuple[str, ...]
    source: str

    @property
    def backend(self) -> str:
        """The backend that is asked; empty where it is another code."""
        return self.source.removeprefix(BACKEND) if self.source.startswith(BACKEND) else ""


@dataclass(frozen=True, slots=True)
class Question:
    """What a predicate is asked: the match so far, and the node of each of its parameters."""

    graph: Graph = field(repr=False)
    inside: OpSet
    root: int
    operands: Mapping[str, int | None]
    """By parameter, in order; None for an optional node that is not there."""
    constants: OpSet = 0
    """Those that would be bound inside."""


Answer = Callable[[Question], str]
"""Why the predicate refuses; empty where it holds."""


@dataclass(frozen=True, slots=True)
class BackendAnswer:
    """The answer of a backend, whose kernels may have their constants inside."""

    supports: Answer
    binds_constants: bool

    def __call__(self, question: Question) -> str:
        return self.supports(question)


Lookup = Callable[[Predicate], Answer]
"""The code of a predicate. Raises PredicateError where it is not allowed or not there."""


class PredicateError(Exception):
    """A predicate cannot be asked: its code is not allowed, not there, or failed."""


def no_host_code(predicate: Predicate) -> Answer:
    """The lookup that allows none."""
    if predicate.backend:
        raise PredicateError(f"what `{predicate.backend}` supports cannot be asked here")
    raise PredicateError(
        f"predicate `{predicate.name}` is host code from {predicate.source}, which is not allowed "
        "here (--allow-extern allows it)"
    )
