"""The variant `tuned`: schedule a function by the steps that tuning has found for it."""

from __future__ import annotations

import json
from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, tirx

from collage_dsl.backends.schedule.expressions import substitute
from collage_dsl.backends.schedule.scheduled import Scheduled, VariantError
from collage_dsl.graph import Record
from collage_dsl.graph.tuning import RECORD, Place, Trace

_MAIN = "main"

_STEPS = frozenset(
    (
        *("Annotate", "ComputeAt", "ComputeInline", "DecomposeReduction", "EnterPostproc", "Fuse"),
        *("CacheWrite", "GetChildBlocks", "GetChildSBlocks", "GetConsumers", "GetLoops"),
        *("GetProducers", "GetSBlock", "Parallel", "Reorder", "ReverseComputeAt"),
        *("ReverseComputeInline", "SampleCategorical", "SampleComputeLocation"),
        *("SamplePerfectTile", "Split", "Unannotate", "Vectorize"),
    )
)
"""
The steps that a record may have. They do not change what a function computes. TVM has others, which
may make a function read and write anywhere.
"""


def tuned(func: Any, target: Any) -> Scheduled:
    """By its record. Raises `VariantError` if that is for another place, or damaged."""
    try:
        record = Record.of_text(str((func.attrs or {}).get(RECORD) or ""))
    except ValueError as error:
        raise VariantError("the record of tuning is damaged") from error
    plain = func.without_attr(RECORD)
    if reason := _misplaced(record.place, place_of(plain, target)):
        raise VariantError(f"the record of tuning is for another {reason}")
    made = by_trace(plain, record.trace, cores=int(target.attrs.get("num-cores") or 1))
    own = dict(zip(made.params, plain.params, strict=True))
    return Scheduled(plain.with_body(substitute(made.body, own)))


def place_of(func: Any, target: Any) -> Place:
    """What a schedule of a fused function is for. Attributes and names do not matter."""
    bare = tirx.PrimFunc(func.params, func.body)
    number = tvm_ffi.structural_hash(bare, map_free_vars=True) % 2**64
    return Place(f"{number:016x}", target_text(target), tvm.__version__)


def target_text(target: Any) -> str:
    """What the code for a target depends on, as JSON."""
    options = {
        str(name): str(value)
        for name, value in target.export().items()
        if name not in ("host", "tag", "keys", "libs") and not str(name).startswith("feature.")
    }
    return json.dumps(options, sort_keys=True)


def _misplaced(known: Place, wanted: Place) -> str:
    """In what two places differ; empty if they are the same."""
    if known.function != wanted.function:
        return "function"
    if known.target != wanted.target:
        return f"target, {known.target}"
    return "" if known.tvm == wanted.tvm else f"version of TVM, {known.tvm}"


def by_trace(func: Any, trace: str, *, cores: int) -> Any:
    """The function after the steps of a trace. Raises `VariantError` if they cannot be done."""
    schedule = s_tir.Schedule(module_of(func))
    try:
        s_tir.schedule.Trace.apply_json_to_schedule(_steps(trace, cores), schedule)
    except (LookupError, RuntimeError, TypeError, ValueError) as error:
        raise VariantError("the steps of the record of tuning cannot be done") from error
    return schedule.mod[_MAIN]


def module_of(func: Any) -> tvm.IRModule:
    """A module of a copy of one function, as traces name it."""
    return copied(tvm.IRModule({_MAIN: func.with_attr("global_symbol", _MAIN)}))


def copied(module: tvm.IRModule) -> tvm.IRModule:
    """
    A copy of a module that shares nothing with it. Schedules of TVM 0.27 change the module that
    they are for.
    """
    return tvm.ir.load_json(tvm.ir.save_json(module))


def _steps(trace: str, cores: int) -> Trace:
    """Raises ValueError if the text is no trace, or has a step that no record may have."""
    steps = json.loads(trace)
    if not isinstance(steps, list) or len(steps) != 2 or not isinstance(steps[0], list):
        raise ValueError("this is no trace")
    refused = {str(step[0]) for step in steps[0]} - _STEPS
    if cores == 1 and any(step[0] == "Parallel" for step in steps[0]):
        refused.add("Parallel")
    if refused:
        raise ValueError(f"a record may not have the step {min(refused)}")
    return steps
