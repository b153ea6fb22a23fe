"""What an observer of the matcher hears, and that it changes nothing."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest
from hypothesis import given

from collage_dsl.graph import Graph
from collage_dsl.language import parse_graph
from collage_dsl.language.loading import patterns
from collage_dsl.rules.explain import explain
from collage_dsl.rules.frame import Frame
from collage_dsl.rules.matcher import Attempt, matches
from collage_dsl.rules.observer import NoObserver, T
from collage_dsl.rules.pattern import Call, Either, Operand, Pattern, Reference
from collage_dsl.source import Span
from tests.cases import cases
from tests.test_matcher_properties import pairs


def pattern(text: str) -> Pattern:
    (found,) = patterns(text=f"collage 1;\n{text}").values()
    return found


@cases(80)
@given(pairs())
def test_an_observer_changes_nothing(pair: tuple[Pattern, Graph]) -> None:
    pattern, graph = pair
    for root in range(len(graph)):
        attempt = Attempt()
        explanation = explain(pattern, graph, root)

        assert matches(pattern, graph, root) == matches(pattern, graph, root, attempt)
        assert explanation.matches == matches(pattern, graph, root)
        assert explanation.attempt == attempt


@dataclass(slots=True)
class Refusals(NoObserver):
    """Every refusal, in order; a part observes its own parts too."""

    said: list[str] = field(default_factory=list)

    def hears(self, progress: int) -> bool:
        return True

    def refused(self, progress: int, because: str, span: Span | None, reason: str) -> None:
        self.said.append(because)


def test_an_observer_may_hear_refusals_and_nothing_else() -> None:
    graph = parse_graph("x: f32[4]; a = exp(x); y = add(a, x); return y;")
    refusals = Refusals()

    assert not matches(
        pattern("pattern p(x) { y = add(tanh(x), x); yield y; }"), graph, 2, refusals
    )
    assert refusals.said == ["`a` is a call of exp, not tanh", "`x` is an input, not tanh"]


@dataclass(frozen=True, slots=True)
class Log(NoObserver):
    """Each way in which a part matched, as the path that leads to the part."""

    lines: list[str]
    path: str = ""

    def operand(self, operand: Operand, index: int, frame: Frame) -> "Log":
        return Log(self.lines, f"{self.path} {_short(operand)}@{index}")

    def each(self, tried: Iterable[T]) -> Iterable[T]:
        for match in tried:
            self.lines.append(self.path.strip())
            yield match


def _short(operand: Operand) -> str:
    match operand:
        case Reference(name):
            return name
        case Call(ops):
            return ops[0]
        case Either():
            return "either"
        case _:
            raise AssertionError(operand)


def test_a_part_that_is_taken_up_again_has_the_observer_that_it_had() -> None:
    """Where `b` is refused, the matcher goes back to `a`, whose second alternative matches too."""
    graph = parse_graph("x: f32[4]; z: f32[4]; r = nn.relu(x); y = subtract(r, z); return y;")
    log = Log([])

    found = matches(
        pattern("pattern p(a, b) { y = subtract((nn.relu(a) | nn.relu?(a)), tanh(b)); yield y; }"),
        graph,
        graph.index("y"),
        log,
    )

    assert not found
    before = "y@3 subtract@3 either@2"
    assert log.lines == [
        *(f"{before} nn.relu@2 a@0", f"{before} nn.relu@2", before),
        *(f"{before} nn.relu@2 a@0", f"{before} nn.relu@2", before),
        *(f"{before} nn.relu@2 a@2", f"{before} nn.relu@2", before),
    ]


@pytest.mark.parametrize(
    ("written", "because"),
    [
        ("y = exp(tanh?(nn.relu(x)))", "three axes (at `y`)"),
        ("y = exp((tanh(x) | nn.relu(x)))", "three axes (at `y`)"),
        ("y = exp((nn.relu(tanh(x)) | nn.relu(x)))", "three axes (at `y`)"),
        ("y = repeat[1..3] exp(x)", "three axes (at `y`)"),
        ("y = path[1..3] exp from x", "three axes (at `y`)"),
    ],
)
def test_an_alternative_that_fails_is_no_reason_where_another_one_matches(
    written: str, because: str
) -> None:
    graph = parse_graph("x: f32[4]; r = nn.relu(x); y = exp(r); return y;")
    attempt = Attempt()
    text = f'pattern p(x) {{ {written}; where rank(x) == 3 else "three axes"; yield y; }}'

    assert not matches(pattern(text), graph, 2, attempt)
    assert attempt.because == because


def test_an_order_of_operands_that_fails_is_no_reason_where_the_other_one_matches() -> None:
    graph = parse_graph("x: f32[4]; w = const f32[4]; y = multiply(w, x); z = exp(y); return y, z;")
    text = "pattern p(x, w: const) { y = exp(multiply(x, w)); yield y; }"
    attempt = Attempt()

    assert not matches(pattern(text), graph, 3, attempt)
    assert attempt.because == "`y` is used outside the match too"


def test_where_both_orders_of_operands_fail_the_written_one_is_the_reason() -> None:
    graph = parse_graph("x: f32[4]; v: f32[4]; y = add(x, v); return y;")
    attempt = Attempt()

    text = "pattern p(x, w: const) { y = add(nn.relu?(x), w); yield y; }"
    assert not matches(pattern(text), graph, 2, attempt)
    assert attempt.because == "`v` is not a constant, as `w` must be"
