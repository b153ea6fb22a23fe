"""
Refine a plan by the times of whole models: an evolution of plans.

The estimate of a plan is a sum of costs. It does not contain how kernels disturb or help each
other. So plans that are made from the best known ones are run, and the faster ones are kept.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

from collage_dsl.cost import Cost, Infeasible
from collage_dsl.search.breeding import Breeding, Genome
from collage_dsl.search.plan import Plan

Race = Callable[[Plan, Plan], Cost]
"""
The time of the second plan as a multiple of that of the first one, from runs in turn; or why the
second plan cannot run.
"""

Times = Mapping[Genome, Cost]
"""The times of plans, as a multiple of the time of the first one, in the order of the runs."""

_POPULATION = 16
"""How many of the fastest plans have offspring."""

_BROODS = (1, 2, 4)
"""The number of new plans of which the one with the least estimate is run."""

_TRIES = 64
"""After so many attempts without a new plan, it may come from any plan that can run."""

_LAST = 256
"""After so many attempts without a new plan, each plan around a known one is looked at."""

_FINALISTS = 3
"""How many of the fastest plans may be in the final race."""


@dataclass(frozen=True, slots=True)
class Refined:
    """
    The plan that is kept, and all times: those known before, and the new ones. `is_complete` where
    no other plan was found before the time was over.
    """

    plan: Plan
    times: Times
    is_complete: bool


def refine(
    breeding: Breeding,
    seeds: Sequence[Plan],
    race: Race,
    *,
    beats: Callable[[Plan, Plan], bool],
    is_over: Callable[[], bool],
    known: Times | None = None,
    number: int = 0,
    heard: Callable[[Genome, Cost], None] = lambda genome, time: None,
) -> Refined:
    """
    The first of the `seeds`, or a plan that `beats` it.

    The seeds are raced against the fastest plan, then their offspring, until `is_over` or until no
    new plan is found. What is `known` is not raced again. Then the fastest plans meet the first
    seed once more: `beats(seed, plan)` says whether a plan is faster for certain. So the result is
    never slower than the first seed.

    With the same `number`, the same plans are made, as long as races have the same results.
    `heard` is told each time as soon as it is known.
    """
    times = dict(known or {})
    start = seeds[0]
    if not times:
        times[start.candidates] = 1.0
        heard(start.candidates, 1.0)
    waiting = [each.candidates for each in seeds if each.candidates not in times]
    is_complete = False
    while not is_over():
        child = waiting.pop(0) if waiting else _child(breeding, times, number, is_over)
        if child is None:
            is_complete = not is_over()
            break
        best = fittest(times)[0]
        ratio = race(breeding.problem.plan(best), breeding.problem.plan(child))
        times[child] = ratio if isinstance(ratio, Infeasible) else ratio * _time(times, best)
        heard(child, times[child])
    for genome in fittest(times)[:_FINALISTS]:
        if genome == start.candidates:
            break
        plan = breeding.problem.plan(genome)
        if beats(start, plan):
            return Refined(plan, times, is_complete)
    return Refined(start, times, is_complete)


def fittest(times: Times) -> list[Genome]:
    """The plans that can run, the fastest first; of equally fast ones, that measured first."""
    running = (each for each, time in times.items() if not isinstance(time, Infeasible))
    return sorted(running, key=lambda genome: _time(times, genome))


def _time(times: Times, genome: Genome) -> float:
    time = times[genome]
    assert not isinstance(time, Infeasible), time.reason
    return time


def _child(
    breeding: Breeding, times: Times, number: int, is_over: Callable[[], bool]
) -> Genome | None:
    """
    A plan that was not measured, if possible made of the fastest ones; None if there is none around
    a known one, or if the time is over before it is found.
    """
    generator = random.Random(f"{number} {len(times)}")
    every = fittest(times)
    brood: list[Genome] = []
    wanted = generator.choice(_BROODS)
    for attempt in range(_LAST):
        if brood and attempt >= _TRIES:
            break
        parents = every[:_POPULATION] if attempt < _TRIES else [generator.choice(every)]
        changes = 1 + attempt // 16 % 4  # One more each 16 attempts, up to 4, and from 1 again.
        child = _offspring(breeding, parents, changes, generator)
        if child not in times and child not in brood:
            brood.append(child)
        if len(brood) == wanted:
            break
    if brood:
        return min(brood, key=breeding.cost)
    around = (child for genome in every for child in breeding.around(genome, generator))
    return next((c for c in takewhile(lambda _: not is_over(), around) if c not in times), None)


def _offspring(
    breeding: Breeding, parents: Sequence[Genome], changes: int, generator: random.Random
) -> Genome:
    """A plan of two parents that won tournaments, or of one, after some changes."""
    child = _winner(parents, generator)
    if generator.random() < 0.5:
        child = breeding.crossed(child, _winner(parents, generator), generator) or child
        changes -= 1
    for _ in range(changes):
        child = breeding.mutated(child, generator) or child
    return child


def _winner(parents: Sequence[Genome], generator: random.Random) -> Genome:
    """The fastest of three, drawn from parents that are in order."""
    return parents[min(generator.randrange(len(parents)) for _ in range(3))]
