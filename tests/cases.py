"""How many cases a property is tried on: few by default, `pytest --cases N` for more."""

from collections.abc import Callable
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
