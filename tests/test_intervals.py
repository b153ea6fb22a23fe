"""How exactly a percentile is known, which times are taken again, and which costs are equal."""

from collections.abc import Callable, Iterable
from itertools import chain, cycle, repeat
from math import comb, inf
from types import SimpleNamespace

import numpy as np
import pytest

from collage_dsl.cost import Infeasible, Measurement, Spread, Variant, cheapest
from collage_dsl.graph import Measuring
from collage_dsl.measuring import pace, timing
from collage_dsl.measuring.interval import interval, is_exact, ranks
from collage_dsl.measuring.pace import Pace, Patience
from collage_dsl.measuring.task import Timing
from collage_dsl.measuring.timing import Timed, interleaved, sample, times_in_turn
from collage_dsl.measuring.ways import may_be_equal
from collage_dsl.measuring.work import Prepared, _timings


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
            sleep=lambda seconds: self.run(0.0, seconds),
        )
        monkeypatch.setattr(timing, "time", clocks)
        monkeypatch.setattr(pace, "time", clocks)
        monkeypatch.setattr(Pace, "_waited", {})
        monkeypatch.setattr(Pace, "_since", None)
        monkeypatch.setattr(Pace, "_recent", pace.Recent())
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

    assert times_in_turn([timed], 1.0) == ([pytest.approx([1.0] * 5)], 1.0)
    assert len(prepared) == 6, "what is before a call is before that which is taken again, too"


def test_where_everything_is_disturbed_it_ends(machine: Machine) -> None:
    calls = []

    def call() -> None:
        calls.append(1)
        machine.run(1.0, 0.0, 1)

    (times,), _ = times_in_turn([Timed(lambda: None, call, 1, QUICK)], 1.0)
    assert times == pytest.approx([1.0] * 5)
    assert len(calls) == 15


def test_calls_run_in_turn_until_each_is_settled(machine: Machine) -> None:
    order: list[str] = []

    def timed(name: str, repeats: int) -> Timed:
        def call() -> None:
            order.append(name)
            machine.run(1.0)

        return Timed(lambda: None, call, 1, Measuring(repeats=repeats, budget=100))

    (first, second), _ = times_in_turn([timed("a", 2), timed("b", 4)], 1.0)

    assert "".join(order) == "aaaaaaabbbbbbb" * 2, "four runs after the others are not timed"
    assert len(first) == len(second) == 6


# The speed of the machine.


class Speeds:
    """
    What makes the machine slower: `factors`, one for each reading, and then the last one again and
    again. The reference kernel, which runs twice for a reading, takes 1 s at the usual speed, and a
    kernel 2 s.
    """

    def __init__(self, machine: Machine, factors: Iterable[float]) -> None:
        self.machine = machine
        self.now = 1.0
        self._factors = iter(factors)
        self._is_timed = cycle((False, True))

    def reference(self) -> None:
        if next(self._is_timed):
            self.now = next(self._factors, self.now)
            self.machine.run(self.now)

    def kernel(self) -> None:
        self.machine.run(2.0 * self.now)


@pytest.fixture
def timed_at(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Timing]:
    """Times a kernel while something makes the machine slower by some factors."""

    def timing_of(
        factors: Iterable[float], usual: float | None = 1.0, patience: Patience = pace.BRIEF
    ) -> Timing:
        speeds = Speeds(machine, factors)
        monkeypatch.setattr(pace, "reference_kernel", lambda: speeds.reference)
        timed = Timed(lambda: None, speeds.kernel, 1, QUICK)
        (found,) = _timings([Prepared(timed, None, usual, patience)])
        return found

    return timing_of


@pytest.mark.parametrize(
    ("factors", "seconds", "low", "high"),
    [
        ([1.0], 2.0, 2.0, 2.0),
        ([1.15], 2.3, 2.3, 2.3),
        ([1.0, 1.7, 1.7, 1.7, 1.0], 2.0, 2.0, 2.0),
        ([1.7, 1.0], 2.0, 2.0, 2.0),
        ([1.0, 1.1, 1.0, 1.1, 1.7, 1.7, 1.0], 2.0, 2.0, 2.2),
    ],
)
def test_only_times_at_the_usual_speed_count(
    timed_at: Callable[..., Timing], factors: list[float], seconds: float, low: float, high: float
) -> None:
    found = timed_at(factors)

    assert found.seconds == pytest.approx(seconds)
    assert found.spread is not None
    assert (found.spread.count, found.spread.speed) == (5, 1.0)
    assert found.spread.low == pytest.approx(low)
    assert found.spread.high == pytest.approx(high)


def test_a_machine_that_stays_slower_is_waited_for_a_tenth_of_the_time(
    machine: Machine, timed_at: Callable[..., Timing]
) -> None:
    found = [timed_at([1.25]) for _ in range(10)]

    assert [each.seconds for each in found] == pytest.approx([2.5] * 10)
    assert [each.spread.speed for each in found if each.spread] == pytest.approx([0.8] * 10)
    most = machine.wall * pace.BRIEF.part + pace.BRIEF.seconds
    assert Pace._waited == {pace.BRIEF: pytest.approx(most, abs=2)}


def test_a_machine_is_waited_for_longer_where_that_is_asked_for(
    machine: Machine, timed_at: Callable[..., Timing]
) -> None:
    Pace._waited[pace.BRIEF] = 100.0
    factors = [1.25] * 8 + [1.0]
    brief, long = (timed_at(factors, patience=each) for each in (pace.BRIEF, pace.LONG))

    assert [each.seconds for each in (brief, long)] == pytest.approx([2.5, 2.0])
    assert [each.spread.speed for each in (brief, long) if each.spread] == [0.8, 1.0]

    before = machine.wall
    found = timed_at([1.25], patience=pace.LONG)
    assert found.seconds == pytest.approx(2.5)
    assert machine.wall - before < 40, "but not for ever"


def test_a_machine_that_is_slower_nearly_always_is_not_waited_for(
    machine: Machine, timed_at: Callable[..., Timing]
) -> None:
    for _ in range(20):
        timed_at([1.25])
    waited = dict(Pace._waited)

    found = timed_at([1.25, 1.3, 1.25, 1.25, 1.4, 1.25], patience=pace.LONG)

    assert waited == Pace._waited
    assert found.spread is not None
    assert found.seconds == pytest.approx(2.5)
    assert (found.spread.count, found.spread.high) == (5, pytest.approx(2.8))
    assert found.spread.speed == pytest.approx(0.8)

    for _ in range(20):
        timed_at([1.0, 1.25])
    assert timed_at([1.25, 1.0]).seconds == pytest.approx(2.0), "now it is the usual speed again"


def test_a_machine_that_is_faster_than_it_was_known_has_a_new_usual_speed(
    timed_at: Callable[..., Timing],
) -> None:
    found = timed_at([1.0, 0.8, 1.0, 1.0, 0.8])

    assert found.spread is not None
    assert (found.seconds, found.spread.speed) == (pytest.approx(1.6), pytest.approx(1.25))


def test_a_speed_that_changes_in_each_run_is_followed_for_a_while(
    timed_at: Callable[..., Timing],
) -> None:
    found = timed_at(chain.from_iterable(repeat([1.0, 1.7])))

    assert found.spread is not None
    assert (found.seconds, found.spread.speed) == (pytest.approx(2.0), 1.0)


def test_without_a_usual_speed_it_is_found_first(timed_at: Callable[..., Timing]) -> None:
    found = timed_at([1.25], usual=None)

    assert found.spread is not None
    assert (found.seconds, found.spread.speed) == (pytest.approx(2.5), 1.0)


def test_rounds_at_a_lower_speed_are_left_out_where_calls_run_interleaved(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    speeds = Speeds(machine, [*[1.0] * 6, *[1.7] * 10, 1.0])
    monkeypatch.setattr(pace, "reference_kernel", lambda: speeds.reference)

    (times,) = interleaved([speeds.kernel], 1, budget=100)

    assert 5 <= len(times) < 25
    assert times == pytest.approx([2.0] * len(times))


def test_where_all_but_a_few_rounds_are_slower_all_count(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    speeds = Speeds(machine, [1.0] * 4 + [1.7])
    monkeypatch.setattr(pace, "reference_kernel", lambda: speeds.reference)

    (times,) = interleaved([speeds.kernel], 1, budget=50)

    assert max(times) == pytest.approx(3.4)


def test_what_runs_often_finds_its_own_data_in_the_cache(machine: Machine) -> None:
    cached = ""

    def runs(name: str) -> Callable[[], object]:
        def call() -> None:
            nonlocal cached
            machine.run(1.0 if cached == name else 2.0)
            cached = name

        return call

    calls = [runs("a"), runs("b")]

    for times in interleaved(calls, 1, budget=50):
        assert times == pytest.approx([1.0] * len(times))


def test_what_runs_rarely_finds_nothing_in_the_cache(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_cached = False

    def call() -> None:
        nonlocal is_cached
        machine.run(1.0 if is_cached else 2.0)
        is_cached = True

    def evict() -> None:
        nonlocal is_cached
        is_cached = False

    monkeypatch.setattr(timing, "evict", evict)

    for times in interleaved([call, call], 1, budget=50, runs="rarely"):
        assert times == pytest.approx([2.0] * len(times))


def test_what_takes_longer_than_all_the_time_there_is_runs_twice(machine: Machine) -> None:
    runs = [0, 0, 0]

    def call(place: int, *seconds: float) -> Callable[[], object]:
        def made() -> None:
            machine.run(seconds[min(runs[place], len(seconds) - 1)])
            runs[place] += 1

        return made

    calls = [call(0, 1.0), call(1, 70.0), call(2, 70.0, 1.0)]

    fast, slow, slow_at_first = interleaved(calls, 1, budget=50)

    assert slow == pytest.approx([70.0] * 2)
    assert runs[1] == 2
    assert fast == pytest.approx([1.0] * len(fast))
    assert slow_at_first == pytest.approx([1.0] * len(fast))


def test_the_reference_takes_some_time() -> None:
    assert 0 < pace.reference() < inf


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
