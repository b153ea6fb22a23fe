"""What counts as the same result."""

import numpy as np
import pytest

from collage_dsl.realization.difference import relative_error, tolerance

INF = float("inf")


@pytest.mark.parametrize(
    ("actual", "expected", "error"),
    [
        (np.array([1.0, 2.0]), np.array([1.0, 4.0]), 0.5),
        (np.array([0.0, 1e-3]), np.array([0.0, 0.0]), 1e-3),
        (np.array([INF, 1.0]), np.array([INF, 1.0]), 0.0),
        (np.array([INF, 1.0]), np.array([-INF, 1.0]), INF),
        (np.array([np.nan, 1.0]), np.array([np.nan, 1.0]), 0.0),
        (np.array([np.nan, 1.0]), np.array([INF, 1.0]), INF),
        (np.array([np.nan, 1.0]), np.array([2.0, 1.0]), INF),
        (np.array([INF, 1.0]), np.array([2.0, 1.0]), INF),
        (np.array([1.0]), np.array([1.0], np.float32), INF),
        (np.array([1, 2]), np.array([1, 2]), 0.0),
        (np.array([50000]), np.array([50001]), INF),
        (np.array([2**60 + 1]), np.array([2**60]), INF),
        (np.array([True]), np.array([False]), INF),
        (np.array([1.0]), np.array([[1.0]]), INF),
        (np.zeros((0, 3)), np.zeros((0, 3)), 0.0),
    ],
)
def test_the_relative_error(actual: np.ndarray, expected: np.ndarray, error: float) -> None:
    assert relative_error(actual, expected) == pytest.approx(error)


def test_the_tolerance_is_that_of_the_dtype() -> None:
    assert tolerance(np.zeros(1, np.float32)) == 1e-4
    assert 1e-4 < tolerance(np.zeros(1, np.float16)) < 1e-2
    assert tolerance(np.zeros(1, np.int64)) == 0
