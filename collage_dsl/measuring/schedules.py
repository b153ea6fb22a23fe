"""Propose schedules for a fused function: the search of TVM's MetaSchedule."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import tvm_ffi
from tvm import s_tir, tirx
from tvm.s_tir import meta_schedule
from tvm.s_tir.meta_schedule.runner import RunnerResult
from tvm.s_tir.meta_schedule.search_strategy import MeasureCandidate

from collage_dsl.backends.schedule.tuned import copied, module_of
from collage_dsl.cost import Cost, Infeasible
from collage_dsl.graph.tuning import Trace
from collage_dsl.measuring.estimates import Estimates
from collage_dsl.measuring.signals import delayed_signals

BATCH = 16
"""How many schedules are proposed at a time. The next ones are made from the fastest so far."""

_POPULATION = 64
_GENERATIONS = 2
_context = tvm_ffi.get_global_func("s_tir.meta_schedule.TuneContext")
_initialize = tvm_ffi.get_global_func("s_tir.meta_schedule.TuneContextInitialize")


class Schedules:
    """
    Proposes schedules for a fused PrimFunc, as traces in JSON, and learns what they cost.

    `known` are the costs of schedules that were tried before; none of them is proposed again.
    """

    def __init__(self, function: Any, target: Any, known: Mapping[str, Cost]) -> None:
        self.target = target
        self.module = module_of(function)
        self.known = dict(known)
        self._database = meta_schedule.database.MemoryDatabase()
        self._workload = self._database.commit_workload(self.module)
        self._estimates = Estimates(seed=len(known) + 1)
        with delayed_signals():
            self._context = self._started(seed=len(known) + 1)
        self._waiting: dict[str, Any] = {}
        self._remember(known)

    def next(self, most: int) -> list[str]:
        """New schedules, `most` at most; none where there are no others."""
        found: list[str] = []
        while not found:
            with delayed_signals():
                proposed = self._context.generate_measure_candidates()
            if not proposed:
                return []
            found = self._new(proposed)[:most]
        return found

    def learn(self, costs: Mapping[str, Cost]) -> None:
        """
        Learn the costs of proposed schedules. Those of the last `next` without a cost are dropped.
        """
        results = []
        for trace, candidate in self._waiting.items():
            cost = costs.get(trace, self.known.get(trace, Infeasible("not tried")))
            self._keep(candidate.sch, cost)
            results.append(_result(cost))
        candidates = list(self._waiting.values())
        with delayed_signals():
            self._context.notify_runner_results(candidates, results)
        self._estimates.update(self._context, candidates, results)
        self.known |= costs

    def _remember(self, known: Mapping[str, Cost]) -> None:
        """Learn from schedules that were tried before."""
        costs = {trace: each for trace, each in known.items() if not isinstance(each, Infeasible)}
        before = {trace: self._applied(trace) for trace in costs}
        for trace, schedule in before.items():
            self._keep(schedule, costs[trace])
        self._estimates.update(
            self._context,
            [MeasureCandidate(schedule, []) for schedule in before.values()],
            [RunnerResult([cost], None) for cost in costs.values()],
        )

    def _new(self, proposed: Sequence[Any]) -> list[str]:
        """The traces of those that have not been tried."""
        self._waiting = {trace_text(each.sch.trace): each for each in proposed}
        found = [trace for trace in self._waiting if trace not in self.known]
        if not found:
            self.learn({})
        return found

    def _started(self, seed: int) -> Any:
        """
        A search that has begun. `TuneContext` of Python would do the same, but in TVM 0.27 it reads
        intrinsics for other processors, which takes a minute.
        """
        cores = int(self.target.attrs.get("num-cores") or 1)
        strategy = meta_schedule.search_strategy.EvolutionarySearch(
            population_size=_POPULATION,
            genetic_num_iters=_GENERATIONS,
            init_min_unmeasured=BATCH,
            max_fail_count=10,
        )
        threads, silent = 1, lambda *_: None
        made = _context(
            self.module, self.target, _space(cores), strategy, "main", threads, seed, silent
        )
        _initialize(made)
        made.pre_tuning(
            1 << 20,
            BATCH,
            made.generate_design_space(),
            self._database,
            self._estimates,
        )
        return made

    def _applied(self, trace: str) -> Any:
        schedule = s_tir.Schedule(copied(self.module))
        s_tir.schedule.Trace.apply_json_to_schedule(json.loads(trace), schedule)
        return schedule

    def _keep(self, schedule: Any, cost: Cost) -> None:
        if not isinstance(cost, Infeasible):
            record = meta_schedule.database.TuningRecord(
                schedule.trace, self._workload, [cost], self.target
            )
            self._database.commit_tuning_record(record)


def _space(cores: int) -> Any:
    """
    The rules by which schedules for a CPU are made: those of TVM, without intrinsics. On one core
    no loop is shared.
    """
    rules, change = meta_schedule.schedule_rule, meta_schedule.mutator
    jobs = 16 if cores > 1 else -1
    after = meta_schedule.postproc
    return meta_schedule.space_generator.PostOrderApply(
        sch_rules=[
            rules.InlineConstantScalars(),
            rules.AutoInline(
                into_producer=False,
                into_consumer=True,
                inline_const_tensor=True,
                disallow_if_then_else=True,
                require_injective=True,
                require_ordered=True,
                disallow_op=["tirx.exp"],
            ),
            rules.MultiLevelTiling(
                structure="SSRSRS",
                max_innermost_factor=64,
                reuse_write=rules.ReuseType(req="may", levels=[1, 2], scope="global"),
            ),
            rules.ParallelizeVectorizeUnroll(
                max_jobs_per_core=jobs,
                max_vectorize_extent=64,
                unroll_max_steps=[0, 16, 64, 512],
                unroll_explicit=True,
            ),
            rules.RandomComputeLocation(),
        ],
        postprocs=[
            after.DisallowDynamicLoop(),
            after.RewriteParallelVectorizeUnroll(),
            after.RewriteReductionBlock(),
        ],
        mutator_probs={
            change.MutateTileSize(): 0.9,
            change.MutateComputeLocation(): 0.05,
            change.MutateUnroll(): 0.05,
        },
    )


def trace_text(trace: Any) -> str:
    """A trace as JSON."""
    return json.dumps(_plain(trace.as_json()), separators=(",", ":"))


def _plain(value: Any) -> Any:
    if isinstance(value, tirx.IntImm):
        return int(value.value)
    if isinstance(value, tirx.FloatImm):
        return float(value.value)
    if value is None or isinstance(value, str | bool | int | float):
        return value
    plain: Trace = [_plain(each) for each in value]
    return plain


def _result(cost: Cost) -> Any:
    if isinstance(cost, Infeasible):
        return RunnerResult(None, cost.reason)
    return RunnerResult([cost], None)
