"""Estimate the times of schedules from those that were timed, to choose which are worth a trial."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm.ir.utils import derived_object
from tvm.s_tir.meta_schedule.cost_model import PyCostModel
from tvm.s_tir.meta_schedule.feature_extractor import PerStoreFeature

from collage_dsl.graph.arrays import Array

_FEWEST = 8
"""With fewer schedules than this, scores are random."""

_RIDGE = 0.1
"""
How far estimates may be from the times that they were made from. It is large if times are noisy.
"""

_REACH = 2.0
"""
How different schedules may be to say something about each other, in spreads of their features.
"""

_ARITHMETIC = slice(0, 16)
"""The features that count the arithmetic of a store."""


class Regression:
    """
    The logarithm of times, estimated from features by kernel ridge regression. Schedules whose
    features are alike are expected to take about the same time.
    """

    def __init__(self) -> None:
        self._features: list[Array] = []
        self._times: list[float] = []

    def __len__(self) -> int:
        return len(self._times)

    def add(self, features: Array, seconds: float) -> None:
        self._features.append(features)
        self._times.append(float(np.log(seconds)))

    def estimates(self, features: Sequence[Array]) -> Array:
        """The logarithms of the times for some features."""
        known, times = np.stack(self._features), np.array(self._times)
        middle, spread = known.mean(axis=0), known.std(axis=0)
        used = spread > 0
        scale = spread[used] * np.sqrt(max(1, used.sum())) * _REACH
        places = (known - middle)[:, used] / scale
        weights = np.linalg.solve(
            _alike(places, places) + _RIDGE * np.eye(len(times)), times - times.mean()
        )
        wanted = (np.stack(features) - middle)[:, used] / scale
        return times.mean() + np.asarray(_alike(wanted, places) @ weights)


def _alike(some: Array, others: Array) -> Array:
    """How alike two places are, for each pair: 1 if they are equal, less with their distance."""
    squares = (some**2).sum(1)[:, None] + (others**2).sum(1)[None] - 2 * some @ others.T
    return np.asarray(np.exp(-np.maximum(squares, 0) / 2))


@derived_object
class Estimates(PyCostModel):
    """A cost model of MetaSchedule. It knows the schedules of one function."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.random = np.random.default_rng(seed)
        self.extractor = PerStoreFeature()
        self.known = Regression()

    def update(self, context: Any, candidates: Any, results: Any) -> None:
        """Learn the times of schedules; those that cannot be used have none."""
        timed = [
            (candidate, float(result.run_secs[0]))
            for candidate, result in zip(candidates, results, strict=True)
            if result.run_secs
        ]
        features = self._features(context, [candidate for candidate, _ in timed])
        for each, (_, seconds) in zip(features, timed, strict=True):
            self.known.add(each, seconds)

    def predict(self, context: Any, candidates: Any) -> Array:
        """A score for each schedule, which is higher for a faster one."""
        if len(self.known) < _FEWEST:
            return self.random.random(len(candidates))
        return -self.known.estimates(self._features(context, candidates))

    def _features(self, context: Any, candidates: Sequence[Any]) -> list[Array]:
        """For each schedule, the features of the store with the most arithmetic."""
        if not candidates:
            return []
        found = self.extractor.extract_from(context, list(candidates))
        rows = (np.asarray(each.numpy(), np.float64) for each in found)
        return [each[each[:, _ARITHMETIC].sum(1).argmax()] for each in rows]

    def load(self, path: str) -> None:
        raise NotImplementedError("what is estimated is made of records")

    def save(self, path: str) -> None:
        raise NotImplementedError("what is estimated is made of records")
