"""The questions that a test asks, and the answers that it expects."""

from dataclasses import dataclass
from typing import Literal

from collage_dsl.rules import FusionSpec, Pattern
from collage_dsl.source import Span


@dataclass(frozen=True, slots=True)
class Matches:
    """
    `matches(p, at: y, nodes: 3)`: how often `pattern` matches with that many operator calls;
    without `at`, anywhere.
    """

    pattern: Pattern
    at: str | None = None
    nodes: int | None = None


@dataclass(frozen=True, slots=True)
class WhyNot:
    """`why_not(p, at: y)`: why `pattern` does not match: the text of the failed condition."""

    pattern: Pattern
    at: str


@dataclass(frozen=True, slots=True)
class Candidates:
    """`candidates(library)`: the number of candidates of a rule or target."""

    spec: FusionSpec


@dataclass(frozen=True, slots=True)
class Proposes:
    """`proposes(onednn, [c, d, y])`: whether a candidate has exactly these nodes."""

    spec: FusionSpec
    nodes: frozenset[str]


@dataclass(frozen=True, slots=True)
class Kernels:
    """`kernels()`, `kernels(tvm)`: the number of kernels in the cheapest plan, or of one target."""

    target: str | None = None


@dataclass(frozen=True, slots=True)
class TargetOf:
    """`target_of(y)`: the target that runs a node in the cheapest plan."""

    node: str


Question = Matches | WhyNot | Candidates | Proposes | Kernels | TargetOf
Operator = Literal["==", "!=", "<", "<=", ">", ">="]


@dataclass(frozen=True, slots=True)
class Expectation:
    """
    `question operator value;`, or its opposite. A count alone is expected to be `> 0`, and a
    truth value alone to be true.
    """

    question: Question
    operator: Operator
    value: int | str
    span: Span
