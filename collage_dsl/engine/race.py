"""Build several plans for one model, run them in turn, and keep the fastest."""

import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from collage_dsl.backends.base import Backend
from collage_dsl.backends.registry import BackendOf
from collage_dsl.backends.tvm_target import kernel_target, num_cores
from collage_dsl.cost.spread import are_equal
from collage_dsl.engine.sizes import Part, timed_draw
from collage_dsl.engine.steps import is_of_all_targets
from collage_dsl.graph import CandidateKernel, Runs, Toolchain
from collage_dsl.graph.arrays import Array
from collage_dsl.measuring.interval import interval, ranks
from collage_dsl.measuring.pace import LONG
from collage_dsl.measuring.timing import PERCENTILE, interleaved, low
from collage_dsl.realization.crossing import devices_of
from collage_dsl.realization.executable import ModelExecutable
from collage_dsl.realization.lower import build, instructions_in
from collage_dsl.realization.may_fail import sources_of
from collage_dsl.realization.partition import KernelCall, realized_together
from collage_dsl.realization.signature import Signature
from collage_dsl.report.documents import ContenderDocument, LatencyDocument, shares
from collage_dsl.rules import FusionSpec
from collage_dsl.search import Plan


@dataclass(frozen=True, slots=True)
class Contender:
    """A plan that was built for the race, or the reason why it could not be built."""

    name: str
    plan: Plan | None
    executable: ModelExecutable | None
    reason: str = ""
    calls: tuple[KernelCall, ...] = ()


def contenders_of(
    part: Part,
    plans: Mapping[str, Plan | str],
    home: Toolchain,
    backend_of: BackendOf,
    backends: Sequence[Backend],
) -> Iterator[Contender]:
    """The contender of each plan. Plans of the same kernels have the same executable."""
    made: dict[frozenset[CandidateKernel], Contender] = {}
    for name, plan in plans.items():
        if isinstance(plan, str):
            yield Contender(name, None, None, plan)
            continue
        kernels = frozenset(plan.candidates)
        if kernels not in made:
            executable, [calls] = built([(part, plan)], home, backend_of, backends)
            made[kernels] = Contender(name, plan, executable, calls=calls)
        yield replace(made[kernels], name=name, plan=plan)


def built(
    plans: Sequence[tuple[Part, Plan]],
    home: Toolchain,
    backend_of: BackendOf,
    backends: Sequence[Backend],
) -> tuple[ModelExecutable, list[tuple[KernelCall, ...]]]:
    """
    One executable of a plan for each part of a model, of which the first is for any size, and the
    calls of kernels in each.
    """
    _, plan = plans[0]
    default = kernel_target(plan.home) if plan.home else None
    kernels = [(part.graph, plan.candidates) for part, plan in plans]
    module, calls = realized_together(kernels, backend_of, default)
    toolchains = (each.toolchain for _, candidates in kernels for each in candidates)
    cores = max(map(num_cores, toolchains), default=1)
    signatures = [
        replace(
            Signature.of(part.graph, devices_of(module, home.kind), cores),
            sources=sources_of(part.graph, called),
        )
        for (part, _), called in zip(plans, calls, strict=True)
    ]
    signature = replace(signatures[0], instructions=instructions_in(module))
    for (part, _), each in zip(plans[1:], signatures[1:], strict=True):
        signature = signature.with_sizes(part.sizes, each)
    return ModelExecutable(build(module, backends=backends), signature), calls


@dataclass(frozen=True, slots=True)
class Series:
    """The seconds of some runs: the low percentile, and between which values it lies by chance."""

    times: tuple[float, ...]

    @property
    def low(self) -> float:
        """The low percentile in seconds, by which series are compared."""
        return low(self.times)

    @property
    def interval(self) -> tuple[float, float]:
        """Where the percentile is, with a probability of 95 % if there are 17 runs or more."""
        return interval(self.times, PERCENTILE)

    def is_less(self, other: "Series") -> bool:
        """Whether it is faster for certain: the intervals do not overlap."""
        return self.interval[1] < other.interval[0]

    def may_equal(self, best: "Series", margin: float) -> bool:
        """Whether it may be as fast as the `best` one: within the margin, or by chance."""
        if are_equal(self.low, best.low, margin):
            return True
        if ranks(len(self.times), PERCENTILE) is None:  # One slow run would make it as fast.
            return self.interval[0] <= best.low and not best.is_less(self)
        return not best.is_less(self)


def race(
    part: Part, contenders: Sequence[Contender], specs: Sequence[FusionSpec], seconds: float
) -> tuple[Contender, list[ContenderDocument]]:
    """
    The contender that is kept for a part of a model, and the report of all. Each runs for about so
    many `seconds`.
    """
    executables = {id(c.executable): c.executable for c in contenders if c.executable}
    series = alternated(part, list(executables.values()), specs, seconds)
    times = dict(zip(executables, series, strict=True))
    running = [c for c in contenders if c.executable]
    margin = margin_of(specs)
    winner = kept([(c, times[id(c.executable)]) for c in running], margin)
    return winner, [
        document(c, times.get(id(c.executable)), times.values(), margin) for c in contenders
    ]


def margin_of(specs: Sequence[FusionSpec]) -> float:
    """The largest noise margin of some targets: times that differ by less count as equal."""
    return max(spec.target.measure.noise_margin for spec in specs)


def alternated(
    part: Part,
    executables: Sequence[ModelExecutable],
    specs: Sequence[FusionSpec],
    seconds: float,
) -> list[Series]:
    """
    The times of executables for a part of a model, run in turn for about `seconds` each, as models
    run that all targets measure for: rarely, or else often.
    """
    inputs = list(timed_draw(part).inputs.values())
    runners = [_runner(executable, inputs) for executable in executables]
    cores = max(num_cores(spec.target) for spec in specs)
    is_rare = all(spec.target.measure.runs == "rarely" for spec in specs)
    runs: Runs = "rarely" if is_rare else "often"
    budget = seconds * len(runners)
    patience = replace(LONG, at_once=min(budget, LONG.at_once))
    found = interleaved(runners, cores, budget=budget, runs=runs, patience=patience)
    return [Series(tuple(times)) for times in found]


def kept(raced: Sequence[tuple[Contender, Series]], margin: float) -> Contender:
    """
    The fastest contender. Others may be as fast, because they are within the noise margin or their
    intervals overlap. Of those whose estimates are within the noise margin too, that of the highest
    priority is kept, then that of the fewest targets, then that with the least estimate; of
    several such, the first.
    """
    best = min((series for _, series in raced), key=lambda series: series.low)
    tied = [contender for contender, series in raced if series.may_equal(best, margin)]
    least = min(_plan(contender).cost for contender in tied)
    close = [each for each in tied if are_equal(_plan(each).cost, least, margin)]
    return min(close, key=lambda each: _rank(_plan(each)))


def _plan(contender: Contender) -> Plan:
    assert contender.plan is not None
    return contender.plan


def _rank(plan: Plan) -> tuple[int, int, float]:
    """A sort key of plans that are as fast."""
    return -plan.priority, len({kernel.target for kernel in plan.candidates}), plan.cost


def _runner(executable: ModelExecutable, inputs: Sequence[Array]) -> Callable[[], object]:
    names = [value.name for value in executable.signature.inputs]
    tensors = executable.tensors(dict(zip(names, inputs, strict=True)))
    return lambda: executable.call(tensors)


def document(
    contender: Contender, series: Series | None, every: Iterable[Series], margin: float
) -> ContenderDocument:
    """The report of a contender, which took so long, beside the series of all."""
    plan = contender.plan
    best = min(every, key=lambda each: each.low, default=None)
    return ContenderDocument(
        name=contender.name,
        alone=not is_of_all_targets(contender.name),
        targets=shares(plan) if plan else {},
        estimated=plan.cost if plan else None,
        measured=latency(list(series.times)) if series else None,
        error=plan.cost / series.low - 1 if plan and series else None,
        interval=series.interval if series else None,
        tied=bool(series and best and series.may_equal(best, margin)),
        reason=contender.reason or None,
    )


def latency(times: list[float]) -> LatencyDocument:
    """A series of times as a low percentile and the distance between its quartiles."""
    lower, _, upper = statistics.quantiles(times, n=4)
    return LatencyDocument(seconds=low(times), spread=upper - lower, runs=len(times))
