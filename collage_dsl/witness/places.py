"""Choose the elements of a constant of which conditions ask where they are, such as of a mask."""

from collections.abc import Iterator, Sequence
from itertools import product

from collage_dsl.rules.condition import All, Expression, Given, all_of, asked_places
from collage_dsl.rules.evaluation import evaluate
from collage_dsl.witness.state import State


def by_place(state: State, at: int, options: Sequence[float]) -> list[float] | None:
    """
    For each place of the constant `at`, the first of `options` for which all conditions hold that
    ask about each element by itself. None if none of them asks where it is, or if there is no such
    option.
    """
    asked = list(_asked(state, at))
    if not any(asked_places(condition) for condition, _ in asked):
        return None
    found: list[float] = []
    for index in product(*map(range, state.nodes[at].tensor.static_shape)):
        fitting = (each for each in options if all(_holds(*one, index, each) for one in asked))
        element = next(fitting, None)
        if element is None:
            return None
        found.append(element)
    return found


def _asked(state: State, at: int) -> Iterator[tuple[Expression, Given]]:
    """What is asked about each element of the constant `at`, with the nodes of the names in it."""
    for condition in state.known.conditions:
        names = state.known.reading.uses[condition.use].names
        own = {name: 0 for name, part in names.items() if part == at}
        if own and condition.is_about_elements:
            bound = {name: state.nodes[part] for name, part in names.items()}
            for each in all_of(condition.written):
                if isinstance(each, All):
                    yield each.condition, Given(bound, elements=own)


def _holds(condition: Expression, given: Given, index: tuple[int, ...], element: float) -> bool:
    axes = range(-len(index), len(index))
    places = {
        place: index[place.axis]
        for place in asked_places(condition)
        if place.of in given.elements and place.axis in axes
    }
    elements = dict.fromkeys(given.elements, element)
    return evaluate(condition, Given(given.bound, elements=elements, places=places)) is True
