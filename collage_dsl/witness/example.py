"""`collage.example`: a small graph that a pattern matches."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

from collage_dsl.graph import Graph
from collage_dsl.language.graphs.graph_text import parse_graph
from collage_dsl.language.reasoning.values.domain import COUNT, NATURAL, is_infinite
from collage_dsl.language.reasoning.values.facts import Facts
from collage_dsl.language.write.graph_printer import format_graph
from collage_dsl.rules.condition import DimAt, Value
from collage_dsl.rules.matcher import matches
from collage_dsl.rules.parts import asks_predicates
from collage_dsl.rules.pattern import Pattern
from collage_dsl.witness.attributes import attributes
from collage_dsl.witness.contents import contents
from collage_dsl.witness.finishing import graphs
from collage_dsl.witness.knowledge import knowledge
from collage_dsl.witness.nodes import nodes
from collage_dsl.witness.reading import NoReadingError, Reading
from collage_dsl.witness.state import Budget, State
from collage_dsl.witness.tape import tapes

MOST_READINGS = 200
"""The most ways to read a pattern that are tried."""

MOST_STEPS = 2_400
"""The most values that are tried in all of them together."""

STEPS_AT_FIRST, STEPS_A_READING = 500, 100
"""
The most in the first reading, and in each other one. Half of the readings are tried with usual
values, the others with random ones.
"""

NOT_EMPTY = 30
"""Only in readings after so many, tensors may have no elements."""


class NoExampleError(Exception):
    """No graph was found that the pattern matches; the message says why."""


@dataclass(frozen=True, slots=True)
class Example:
    """A graph that a pattern matches at the node `at`."""

    graph: Graph
    at: str
    nodes: frozenset[str]
    """The calls, tuples and projections that are inside the match."""

    def __str__(self) -> str:
        """The graph in the text notation, as a `test` has it."""
        return format_graph(self.graph, filled=True)


def example(pattern: Pattern) -> Example:
    """
    A small graph that `pattern` matches. Of optional nodes as many are there as can be, and what is
    repeated is there as rarely as it may be.

    Raises NoExampleError if the pattern asks an `extern predicate`, whose code is not known, or if
    none is found in a bounded number of steps. The same pattern has the same example each time.
    """
    if not isinstance(pattern, Pattern):
        raise TypeError(f"`pattern` of `example` must be a Pattern, not {type(pattern).__name__}")
    if asks_predicates(pattern):
        raise NoExampleError(
            f"`{pattern.name}` asks an extern predicate, and what that accepts is not known"
        )
    left = MOST_STEPS
    tried: set[tuple[tuple[int, int], ...]] = set()
    for number, tape in enumerate(tapes(MOST_READINGS)):
        try:
            reading = Reading.of(pattern, tape)
        except NoReadingError:
            continue
        choices = tuple(tape.taken)
        random = None if number % 4 < 2 and choices not in tried else Random(number)
        tried.add(choices)
        budget = Budget(min(left, STEPS_A_READING if number else STEPS_AT_FIRST))
        start = budget.left
        found = _found(pattern, reading, budget, random, number > NOT_EMPTY)
        left -= start - max(0, budget.left)
        if found is not None:
            return found
        if left <= 0:
            break
    raise NoExampleError(f"no graph was found that `{pattern.name}` matches")


def _found(
    pattern: Pattern,
    reading: Reading,
    budget: Budget,
    random: Random | None,
    is_empty_allowed: bool,
) -> Example | None:
    """The example in one reading: with usual values, or with `random` ones."""
    known = knowledge(reading)
    ways = list(known.ways(NATURAL if is_empty_allowed else COUNT))
    for way, said in ways:
        share = Budget(max(80, budget.left // len(ways)))
        before = share.left
        numbers = tuple(dict.fromkeys((*known.numbers, *_dimensions(way))))
        first = State(known, way, said, share, random, is_empty_allowed, numbers)
        for state in _solved(first):
            for graph in graphs(state):
                shown = _verified(pattern, graph)
                if shown is not None:
                    return shown
            if not share.spend():
                break
        budget.left -= before - max(0, share.left)
        if budget.left <= 0:
            break
    return None


def _dimensions(facts: Facts) -> Iterator[Value]:
    """The least and the greatest dimension that the facts leave on an axis, if they are asked."""
    for term, values in facts.values.items():
        if isinstance(term, DimAt):
            least, most = values.bounds()
            yield from (int(end) for end in (least, most) if not is_infinite(end) and end > 1)


Step = Callable[[State], Iterator[State]]


def _solved(first: State) -> Iterator[State]:
    """The states in which each part has a node, by backtracking."""
    parts = first.known.reading.parts
    steps: list[Step] = [_attributes(at) for at in first.known.calls]
    steps += [_node(at) for at in range(len(parts))]
    steps.append(contents)
    stack = [iter((first,))]
    while stack:
        if first.budget.left <= 0:
            return
        state = next(stack[-1], None)
        if state is None:
            stack.pop()
        elif len(stack) > len(steps):
            yield state
        else:
            stack.append(steps[len(stack) - 1](state))


def _attributes(at: int) -> Step:
    return lambda state: attributes(state, at)


def _node(at: int) -> Step:
    return lambda state: nodes(state, at)


def _verified(pattern: Pattern, graph: Graph) -> Example | None:
    """The graph as it is read back from its text, if the pattern matches it there."""
    read = parse_graph(format_graph(graph, filled=True))
    root = read.outputs[0]
    for match in matches(pattern, read, root):
        return Example(read, read.nodes[root].name, read.names(match.inside))
    return None
