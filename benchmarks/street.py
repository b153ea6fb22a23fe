"""
Compare the latency of a model compiled by `collage.compile` and by the pass in `tvm.compile`.

    python benchmarks/street.py [MODEL…] [--store FILE]

Both get the same Relax module and the same store of costs, so they should choose and build the
same kernels. `compile` races its plans and keeps the fastest. Here its mixed plan is used, because
that is what the pass builds. The executables run in turn in one process. Times are CPU time of the
thread, a low percentile. The spread is the distance between the quartiles divided by the median,
for the executable with the larger spread.
"""

import argparse
import statistics
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import tvm
from tvm import relax

import collage_dsl as collage
from collage_dsl.backends.registry import installed
from collage_dsl.backends.tvm_target import host_target
from collage_dsl.cost import CostStore
from collage_dsl.cost.store import default_store_path
from collage_dsl.engine import predicates
from collage_dsl.engine.race import built
from collage_dsl.engine.sizes import Part
from collage_dsl.engine.specs import specs_of
from collage_dsl.engine.steps import MIXED, searched
from collage_dsl.engine.variants import with_variants
from collage_dsl.frontend.light import light_model
from collage_dsl.frontend.onnx import from_onnx
from collage_dsl.frontend.to_relax import dataflow_of
from collage_dsl.graph import Graph
from collage_dsl.measuring.bounds import lower_bound
from collage_dsl.measuring.cost import MeasuredCost
from collage_dsl.measuring.timing import interleaved, low
from collage_dsl.realization.draws import draws_of
from collage_dsl.resources import shipped_spec
from collage_dsl.search import Hints

MODELS = ("squeezenet", "shufflenet", "alexnet", "resnet50", "inception_v1", "densenet121")


def by_compile(
    graph: Graph, targets: Sequence[Any], store: Path, inputs: Sequence[Any]
) -> Callable[[], object]:
    """A call of the mixed plan, as `compile` builds and runs it."""
    specs = specs_of(targets)
    backend_of = installed()
    with CostStore(store) as costs, MeasuredCost(backend_of, costs) as cost:
        hints = Hints(lower_bound(cost))
        plans = searched(graph, specs, cost, predicates.lookup(), hints=hints).plans
        plan = plans[MIXED]
        assert not isinstance(plan, str)
        plan = with_variants(plan, cost)
    part = Part({}, graph, None, None)
    executable, _ = built([(part, plan)], specs[0].target, backend_of, ())
    return partial(executable.call, inputs)


def by_pass(
    graph: Graph, targets: Sequence[Any], store: Path, inputs: Sequence[Any]
) -> Callable[[], object]:
    """A call of what `tvm.compile` builds with the pipeline of this package."""
    pipeline = collage.pipeline(targets, store=store)
    made = tvm.compile(dataflow_of(graph).module, host_target(), relax_pipeline=pipeline)
    return partial(relax.VirtualMachine(made, tvm.cpu())["main"], *inputs)


def row(model: str, targets: Sequence[Any], store: Path, seconds: float) -> str:
    graph = from_onnx(light_model(model))
    arrays = list(next(draws_of(graph)).inputs.values())
    inputs = [tvm.runtime.tensor(array) for array in arrays]
    calls = [way(graph, targets, store, inputs) for way in (by_compile, by_pass)]
    first, second = interleaved(calls, 1, budget=seconds)
    ratio = low(second) / low(first)
    spread = max(map(_spread, (first, second)))
    times = f"{low(first) * 1e3:.2f} ms | {low(second) * 1e3:.2f} ms"
    return f"| {model} | {times} | {ratio:.3f} | {spread:.3f} |"


def _spread(times: list[float]) -> float:
    lower, middle, upper = statistics.quantiles(times, n=4)
    return (upper - lower) / middle


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("models", nargs="*", default=MODELS)
    parser.add_argument("--store", type=Path, default=default_store_path())
    parser.add_argument("--seconds", type=float, default=10, help="how long a pair is run")
    asked = parser.parse_args()
    targets = [shipped_spec("native"), shipped_spec("onnxruntime")]
    print("| model | compile | pass | pass / compile | spread |")
    print("|---|---:|---:|---:|---:|")
    for model in asked.models:
        print(row(model, targets, asked.store, asked.seconds), flush=True)


if __name__ == "__main__":
    main()
