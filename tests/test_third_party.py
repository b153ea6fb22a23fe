"""A backend that is neither ours nor a library, from a package that is installed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx

from collage_dsl.realization.difference import relative_error
from tests.caches import with_compiled_code
from tests.models import small_product
from tests.reference import run_onnx

PACKAGE = Path(__file__).with_name("third_party")


def test_it_is_placed_alike_and_computes_alike_by_every_way_in(tmp_path: Path) -> None:
    installed, model, results = tmp_path / "site", tmp_path / "model.onnx", tmp_path / "results"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--no-index", "--target", installed, PACKAGE], check=True)
    with_compiled_code(tmp_path / "cache")
    onnx.save_model(small_product(), model)

    folders = [str(installed), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(folders),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }
    program = [sys.executable, str(PACKAGE / "ways.py"), str(model), str(results)]
    done = subprocess.run(program, env=environment, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    found = json.loads(results.read_text("utf-8"))
    by_compile, by_pass = ([sorted(kernel) for kernel in kernels] for kernels in found["placed"])
    attributes = ["Primitive", "collage_backend", "target"]
    assert by_compile
    assert all(kernel == attributes for kernel in by_compile + by_pass)
    assert {kernel["collage_backend"] for kernels in found["placed"] for kernel in kernels} == {
        "mine"
    }
    assert all(count > 0 for count in found["scheduled"]), "its own schedules are used"
    x = np.random.default_rng(5).normal(size=(4, 6)).astype(np.float32)
    (expected,) = run_onnx(small_product(), {"x": x}).values()
    for numbers in found["numbers"]:
        actual = np.array(numbers, np.float32).reshape(expected.shape)
        assert relative_error(actual, expected) < 1e-5
