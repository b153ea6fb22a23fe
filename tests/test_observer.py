"""What an observer of the matcher hears, and that it changes nothing."""

from collections.abc import Iterable
from dataclasses import dataclass, field

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
