"""One model by each of the three ways in; what was placed and computed, as JSON."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import third_party
import tvm
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx

import collage_dsl as collage

TARGET = {"kind": "llvm", "feature.compiler": "mine"}


def price(candidate: Any) -> float:
    return 1e-5 * len(candidate.nodes)


def placed(module: tvm.IRModule) -> list[dict[str, str]]:
    """The attributes of every kernel, but for what names it."""
    functions = (f.attrs for _, f in module.functions_items() if isinstance(f, relax.Function))
    kernels = (attrs for attrs in functions if attrs and attrs.get("target") is not None)
    return [{str(k): str(v) for k, v in attrs.items() if k != "global_symbol"} for attrs in kernels]


def run(executable: Any, x: Any) -> list[float]:
    main = relax.VirtualMachine(executable, tvm.cpu())["main"]
    return main(tvm.runtime.tensor(x)).numpy().ravel().tolist()


def main(path: str) -> None:
    spec = collage.gather(TARGET)
    x = np.random.default_rng(5).normal(size=(4, 6)).astype(np.float32)
    model = onnx.load_model(path)
    module = from_onnx(model, keep_params_in_input=False)
    (name,) = (value.name for value in model.graph.input)

    compiled = collage.compile(path, [spec], cost=price)
    partitioned = collage.CollagePartition([spec], price)(module)
    lowered = tvm.compile(partitioned, tvm.target.Target("llvm"), relax_pipeline=collage.lowering())
    scheduled = len(third_party.SCHEDULED)
    target = tvm.target.Target(TARGET)
    whole = tvm.compile(module, target, relax_pipeline="collage")
    results = {
        "placed": [placed(collage.realize(compiled.plan)), placed(partitioned)],
        "numbers": [
            np.asarray(*compiled.run({name: x}).values()).ravel().tolist(),
            run(lowered, x),
            run(whole, x),
        ],
        "scheduled": [scheduled, len(third_party.SCHEDULED) - scheduled],
    }
    Path(sys.argv[2]).write_text(json.dumps(results), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
