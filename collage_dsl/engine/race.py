"""Build several plans for one model, run them in turn, and keep the fastest."""

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from collage_dsl.backends.base import Backend
from collage_dsl.backends.registry import BackendOf
from collage_dsl.backends.tvm import kernel_target, num_cores
from collage_dsl.cost.spread import are_equal
from collage_dsl.engine.sizes import Part
from collage_dsl.graph import CandidateKernel, Toolchain
from collage_dsl.measuring.timing import interleaved, low
from collage_dsl.realization.crossing import devices_of
from collage_dsl.realization.draws import draws_of
from collage_dsl.realization.executable import ModelExecutable
from collage_dsl.realization.lower import build
from collage_dsl.realization.may_fail import sources_of
from collage_dsl.realization.partition import KernelCall, realized_together
from collage_dsl.realization.signature import Signature
from collage_dsl.report.documents import ContenderDocument, LatencyDocument, shares
from collage_dsl.rules import FusionSpec
from collage_dsl.search import Plan

Array = np.ndarray[Any, Any]


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
    signature = signatures[0]
    for (part, _), each in zip(plans[1:], signatures[1:], strict=True):
        signature = signature.with_sizes(part.sizes, each)
    return ModelExecutable(build(module, backends=backends), signature), calls


def race(
    part: Part, contenders: Sequence[Contender], specs: Sequence[FusionSpec], seconds: float
) -> tuple[Contender, list[ContenderDocument]]:
    """
    The fastest contender for a part of a model, and the report of all. Of those that are as fast
    within the noise margin, it is the first. Each runs for about so many `seconds`.
    """
    inputs = list(next(draws_of(part.graph, part.inputs)).inputs.values())
    executables = {id(c.executable): c.executable for c in contenders if c.executable}
    runners = {key: _runner(executable, inputs) for key, executable in executables.items()}
    cores = max(num_cores(spec.target) for spec in specs)
    budget = seconds * len(runners)
    times = dict(
        zip(runners, interleaved(list(runners.values()), cores, budget=budget), strict=True)
    )
    taken = [(low(times[id(c.executable)]), c) for c in contenders if c.executable]
    fastest = min(took for took, _ in taken)
    margin = max(spec.target.measure.noise_margin for spec in specs)
    winner = next(c for took, c in taken if are_equal(took, fastest, margin))
    return winner, [_document(c, times.get(id(c.executable))) for c in contenders]


def _runner(executable: ModelExecutable, inputs: Sequence[Array]) -> Callable[[], object]:
    names = [value.name for value in executable.signature.inputs]
    tensors = executable.tensors(dict(zip(names, inputs, strict=True)))
    return lambda: executable.call(tensors)


def _document(contender: Contender, times: list[float] | None) -> ContenderDocument:
    plan = contender.plan
    return ContenderDocument(
        name=contender.name,
        targets=shares(plan) if plan else {},
        estimated=plan.cost if plan else None,
        measured=latency(times) if times else None,
        reason=contender.reason or None,
    )


def latency(times: list[float]) -> LatencyDocument:
    """A series of times as a low percentile and the distance between its quartiles."""
    lower, _, upper = statistics.quantiles(times, n=4)
    return LatencyDocument(seconds=low(times), spread=upper - lower, runs=len(times))
