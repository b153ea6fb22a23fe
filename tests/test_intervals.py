"""How exactly a percentile is known, which times are taken again, and which costs are equal."""

from collections.abc import Iterator
from itertools import chain, repeat
from math import comb, inf
from types import SimpleNamespace

import numpy as np
import pytest

from collage_dsl.cost import Infeasible, Measurement, Spread, Variant, cheapest
from collage_dsl.graph import Measuring
from collage_dsl.measuring import timing
from collage_dsl.measuring.interval import interval, is_exact, ranks
from collage_dsl.measuring.task import Prepared, _timings
from collage_dsl.measuring.timing import Timed, sample, times_in_turn
from collage_dsl.measuring.ways import may_be_equal


def coverage(count: int, percentile: int, low: int, high: int) -> float:
    """The probability that so many of `count` times are below the percentile."""
    p = percentile / 100
    return sum(comb(count, k) * p**k * (1 - p) ** (count - k) for k in range(low, high))


@pytest.mark.parametrize("percentile", [1, 5, 20, 50, 80, 99])
def test_an_interval_has_the_percentile_in_it_with_its_confidence(percentile: int) -> None:
    for count in range(1, 201):
        found = ranks(count, percentile)
        if found is None:
            continue
        low, high = found
        assert 1 <= low < high <= count
        assert coverage(count, percentile, low, high) >= 0.95
        # Neither end could be nearer.
        assert coverage(count, percentile, 0, low + 1) > 0.025
        assert coverage(count, percentile, high - 1, count + 1) > 0.025


@pytest.mark.parametrize(("percentile", "count"), [(20, 17), (50, 6), (80, 17), (5, 72)])
def test_so_many_times_are_needed_for_an_interval(percentile: int, count: int) -> None:
    assert ranks(count - 1, percentile) is None
    assert ranks(count, percentile) is not None


@pytest.mark.parametrize("percentile", [0, 100])
def test_of_the_shortest_and_the_longest_time_there_is_none(percentile: int) -> None:
    assert ranks(10_000, percentile) is None
    assert interval([3.0, 1.0, 2.0], percentile) == (1.0, 3.0)
    assert not is_exact([1.0] * 100, percentile, 0.5)


def test_many_times_give_an_interval_like_that_of_a_few_less() -> None:
    few, many = ranks(200, 20), ranks(201, 20)
    assert few is not None
    assert many is not None
    assert max(abs(a - b) for a, b in zip(few, many, strict=True)) <= 1


def test_intervals_hold_for_times_that_are_disturbed() -> None:
    generator = np.random.default_rng(0)
    true = np.quantile(1 + generator.exponential(0.1, 1_000_000), 0.2)

    rounds = (interval(list(1 + generator.exponential(0.1, 20)), 20) for _ in range(2_000))
    held = sum(low <= true <= high for low, high in rounds)

    assert held >= 0.94 * 2_000


# What disturbs a time.


class Machine:
    """Clocks that calls move on, of which others may have a part."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.wall = self.cpu = 0.0
        self.switches = 0
        clocks = SimpleNamespace(
            monotonic=lambda: self.wall,
            perf_counter_ns=lambda: round(self.wall * 1e9),
            thread_time_ns=lambda: round(self.cpu * 1e9),
            sleep=lambda seconds: None,
        )
        monkeypatch.setattr(timing, "time", clocks)
        monkeypatch.setattr(timing, "_switches", lambda num_cores: self.switches)

    def run(self, seconds: float, others: float = 0.0, switches: int = 0) -> None:
        self.cpu += seconds
        self.wall += seconds + others
        self.switches += switches


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


@pytest.mark.parametrize(
    ("others", "switches", "disturbed"),
    [(0.0, 0, False), (0.01, 0, False), (0.1, 0, True), (0.0, 1, True)],
)
def test_a_call_is_disturbed_where_others_have_the_processor(
    machine: Machine, others: float, switches: int, disturbed: bool
) -> None:
    seconds, found = sample(lambda: machine.run(1.0, others, switches), 1)

    assert (seconds, found) == (pytest.approx(1.0), disturbed)


def test_on_several_cores_the_wall_clock_counts(machine: Machine) -> None:
    seconds, found = sample(lambda: machine.run(1.0, 0.5), 2)

    assert (seconds, found) == (pytest.approx(1.5), False)
    assert sample(lambda: machine.run(1.0, 0.0, 1), 2)[1]


def test_real_calls_tell_switches_of_this_thread() -> None:
    sample(lambda: None, 1)
    sample(lambda: None, 2)
    before = timing._switches(1)
    assert 0 <= before <= timing._switches(2)


QUICK = Measuring(repeats=5, budget=100)


def test_a_disturbed_time_is_taken_again(machine: Machine) -> None:
    prepared = []
    switches = iter([0, 1, 0, 0, 0, 0])
    lengths = iter([1.0, 9.0, 1.0, 1.0, 1.0, 1.0])
    timed = Timed(
        lambda: prepared.append(1), lambda: machine.run(next(lengths), 0, next(switches)), 1, QUICK
    )

    assert times_in_turn([timed]) == [pytest.approx([1.0] * 5)]
    assert len(prepared) == 6, "what is before a call is before that which is taken again, too"


def test_where_everything_is_disturbed_it_ends(machine: Machine) -> None:
    calls = []

    def call() -> None:
        calls.append(1)
        machine.run(1.0, 0.0, 1)

    assert times_in_turn([Timed(lambda: None, call, 1, QUICK)]) == [pytest.approx([1.0] * 5)]
    assert len(calls) == 15


def test_calls_run_in_turn_until_each_is_settled(machine: Machine) -> None:
    order: list[str] = []

    def timed(name: str, repeats: int) -> Timed:
        def call() -> None:
            order.append(name)
            machine.run(1.0)

        return Timed(lambda: None, call, 1, Measuring(repeats=repeats, budget=100))

    first, second = times_in_turn([timed("a", 2), timed("b", 4)])

    assert "".join(order) == "abababab"
    assert len(first) == len(second) == 4


# The speed of the machine.


def kernel(machine: Machine, lengths: Iterator[float], usual: float | None) -> Prepared:
    timed = Timed(lambda: None, lambda: machine.run(next(lengths)), 1, QUICK)
    return Prepared(timed, None, usual)


@pytest.mark.parametrize(
    ("usual", "slower", "seconds", "speed"),
    [
        (1.0, [1.0] * 5, 2.0, 1.0),
        (1.0, [1.15] * 5, 2.3, 1.0),
        (1.0, [1.25] * 5, 2.0, 0.8),
        (1.0, [0.8] * 5, 1.6, 1.0),
        (1.0, [1.25, 1.25, 1.0, 1.0, 1.25], 2.0, 1.0),
        (1.0, [1.25, 0.8, 1.25, 1.25, 1.25], 2.32, 1.0),
        (None, [1.25] * 5, 2.5, 1.0),
    ],
)
def test_times_are_corrected_for_the_speed_of_the_machine(
    machine: Machine,
    monkeypatch: pytest.MonkeyPatch,
    usual: float | None,
    slower: list[float],
    seconds: float,
    speed: float,
) -> None:
    """The machine is slower by these factors in the rounds, and then by the last one."""
    reference = chain([] if usual else [1.25] * timing.REFERENCE_RUNS, slower, repeat(slower[-1]))
    monkeypatch.setattr(timing, "_reference", lambda: lambda: machine.run(next(reference)))

    (found,) = _timings([kernel(machine, iter([2.0 * each for each in slower]), usual)])

    assert found.seconds == pytest.approx(seconds)
    assert found.spread is not None
    assert found.spread.speed == pytest.approx(speed)
    assert found.spread.low == pytest.approx(2.0 * min(slower) * speed)
    assert found.spread.high == pytest.approx(2.0 * max(slower) * speed)


def test_times_are_taken_again_when_a_disturbance_is_over(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    reference = chain([1.7] * 30, repeat(1.0))
    monkeypatch.setattr(timing, "_reference", lambda: lambda: machine.run(next(reference)))

    (found,) = _timings([kernel(machine, chain([3.4] * 5, repeat(2.0)), 1.0)])

    assert found.spread is not None
    assert (found.seconds, found.spread.speed) == (pytest.approx(2.0), 1.0)


def test_a_disturbance_that_comes_back_each_time_is_corrected(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    reference = chain(*([1.25] * 5 + [1.0] for _ in range(3)))
    monkeypatch.setattr(timing, "_reference", lambda: lambda: machine.run(next(reference)))

    (found,) = _timings([kernel(machine, repeat(2.5), 1.0)])

    assert found.spread is not None
    assert (found.seconds, found.spread.speed) == (pytest.approx(2.0), pytest.approx(0.8))


def test_the_reference_takes_some_time() -> None:
    assert 0 < timing.reference() < inf


# Costs that are equal.


def measured(cost: float, low: float, high: float) -> Measurement:
    return Measurement("k", "c", "l", cost, spread=Spread(low, high, 20, "any"))


@pytest.mark.parametrize(
    ("other", "equal"),
    [
        (measured(1.02, 1.02, 1.02), True),
        (measured(1.03, 1.03, 1.03), False),
        (measured(1.03, 1.0, 1.1), True),
        (measured(0.9, 0.8, 0.95), False),
        (Measurement("k", "c", "l", 1.02), True),
        (Measurement("k", "c", "l", 1.03), False),
        (Measurement("k", "c", "l", Infeasible("crashed")), False),
    ],
)
def test_which_kernels_may_cost_the_same(other: Measurement, equal: bool) -> None:
    one = measured(1.0, 0.99, 1.01)

    assert may_be_equal([one], [other], 0.02) == may_be_equal([other], [one], 0.02) == equal


def test_spreads_of_several_kernels_add_up() -> None:
    one, parts = measured(2.2, 2.1, 2.3), [measured(1.0, 0.9, 1.04), measured(1.0, 0.9, 1.07)]

    assert may_be_equal([one], parts, 0.02)
    assert not may_be_equal([one], [parts[0], parts[0]], 0.02)


def test_of_equal_variants_the_first_counts() -> None:
    slow, first, best = Variant("a", 1.03), Variant("b", 1.02), Variant("c", 1.0)

    assert cheapest([slow, first, best]) == best
    assert cheapest([slow, first, best], 0.02) == first
    assert cheapest([Variant("a", Infeasible("no")), best], 0.02) == best
    assert cheapest([Variant("a", Infeasible("no"))], 0.02).name == "a"
