"""
How many of many cases are tried: of a property few by default, and more by `pytest --cases N`; of
a list a sample, and the rest by `make test-slow`.
"""

from collections.abc import Callable, Iterable
from itertools import chain, product
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

ASKED = "cases"
"""The profile of hypothesis that `--cases` makes and loads (tests/conftest.py)."""


def cases(default: int) -> Callable[[Any], Any]:
    """
    Run a property on `default` cases, or on as many as `--cases` says:

        @cases(50)
        @given(graphs())
        def test_what_always_holds(graph: Graph) -> None: ...

    Such tests are marked: `pytest -m properties --cases 10000` runs them alone.
    """

    def decorate(test: Any) -> Any:
        asked = settings.get_current_profile_name() == ASKED
        found = settings(
            max_examples=settings().max_examples if asked else default,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow],
            database=None,
        )
        return pytest.mark.properties(found(test))

    return decorate


def sample(every: int, cases: Iterable[Any]) -> list[Any]:
    """One in `every` of the `cases` of a test, which is parametrized; the others are `slow`."""
    return [
        case if at % every == 0 else slow(*(case if isinstance(case, tuple) else (case,)))
        for at, case in enumerate(cases)
    ]


def covering(*axes: Iterable[Any], rest: Iterable[Any] = ()) -> list[Any]:
    """
    All combinations of the values of two or more `axes`, to parametrize a test with. Those beyond
    a set that has each value of the first axis, and each combination of the others, are `slow`.
    A tuple has the values of several parameters. `rest` are more values of the first axis, with
    which all combinations are `slow`.

        @pytest.mark.parametrize(("shape", "cores"), covering(SHAPES, [1, 2]))
    """
    first, others = tuple(axes[0]), tuple(product(*axes[1:]))
    found = []
    for (at, one), (place, other) in product(enumerate((*first, *rest)), enumerate(others)):
        values = [each if isinstance(each, tuple) else (each,) for each in (one, *other)]
        is_quick = at < len(first) and at % len(others) == place % len(first)
        found.append((pytest.param if is_quick else slow)(*chain.from_iterable(values)))
    return found


def slow(*values: Any) -> Any:
    """The parameters of a case that `make test-slow` tries, and `make test` does not."""
    return pytest.param(*values, marks=pytest.mark.slow)
