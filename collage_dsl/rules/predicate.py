"""Predicates: conditions in host code that a spec declares and the matcher calls."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from collage_dsl.graph import Graph, OpSet

BACKEND = "backend:"
"""The start of the source of a predicate that asks a backend what it supports."""

PATTERN_TABLE = "pattern_table:"
"""The start of the source of a predicate that is the `check` of one of TVM's own patterns."""


@dataclass(frozen=True, slots=True)
class Predicate:
    """
    `extern predicate fits(x, w) from "acme.predicates:fits";`

    `source` says where the code is: `package.module:function`, or, for the `check` of one of
    TVM's own patterns, `pattern_table:cutlass.conv2d_bias`. The source `backend:NAME` asks the
    backend what it supports. No file declares such a predicate; the rule
    `op_predicate("NAME.supports")` makes it.
    """

    name: str
    parameters: tuple[str, ...]
    source: str

    @property
    def backend(self) -> str:
        """The name of the backend that is asked; empty for any other source."""
        return self.source.removeprefix(BACKEND) if self.source.startswith(BACKEND) else ""


@dataclass(frozen=True, slots=True)
class Question:
    """The input of a predicate: the match so far, and the node of each of its parameters."""

    graph: Graph = field(repr=False)
    inside: OpSet
    root: int
    operands: Mapping[str, int | None]
    """The node of each parameter, in order; None for an absent optional node."""
    constants: OpSet = 0
    """The constants that would be bound inside."""


Answer = Callable[[Question], str]
"""Returns why the predicate refuses, or an empty string if it holds."""


@dataclass(frozen=True, slots=True)
class BackendAnswer:
    """The answer of a backend. `binds_constants`: its kernels have their constants inside."""

    supports: Answer
    binds_constants: bool

    def __call__(self, question: Question) -> str:
        return self.supports(question)


Lookup = Callable[[Predicate], Answer]
"""Finds the code of a predicate. Raises PredicateError if it is not allowed or does not exist."""


class PredicateError(Exception):
    """A predicate cannot be asked: its code is not allowed, does not exist, or failed."""


def no_host_code(predicate: Predicate) -> Answer:
    """The lookup that allows no host code: it always raises PredicateError."""
    if predicate.backend:
        raise PredicateError(f"what `{predicate.backend}` supports cannot be asked here")
    raise PredicateError(
        f"predicate `{predicate.name}` is host code from {predicate.source}, which is not allowed "
        "here (the argument `allow_extern` allows it)"
    )
