"""The examples of `docs/pipeline.md` run as they stand."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.caches import with_compiled_code

PAGE = (Path(__file__).parent.parent / "docs" / "pipeline.md").read_text("utf-8")


@pytest.mark.engine
def test_the_examples_run_each_half_in_a_process_of_its_own(tmp_path: Path) -> None:
    *examples, fresh = re.findall(r"```python\n(.*?)```", PAGE, flags=re.S)
    assert len(examples) == 5
    with_compiled_code(tmp_path)
    for name, program in {"first.py": "\n".join(examples), "fresh.py": fresh}.items():
        (tmp_path / name).write_text(program, "utf-8")
        done = subprocess.run(
            [sys.executable, name],
            cwd=tmp_path,
            env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr


@pytest.mark.engine
def test_compiled_mode_runs_native_kernels_for_the_target_that_is_given() -> None:
    import numpy as np
    import tvm
    from tvm import relax

    import collage_dsl as collage
    from collage_dsl.backends.instructions import host_cpu

    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((4, 8), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            result = builder.emit_output(builder.emit(relax.op.exp(x)))
        builder.emit_func_output(result)
    target = tvm.target.Target({"kind": "llvm", "mcpu": host_cpu(), "num-cores": 1})
    passes = collage.pipeline(["native"], cost=lambda _: 1e-6)
    built = relax.build(builder.get(), target, relax_pipeline=passes, exec_mode="compiled")

    given = np.ones((4, 8), np.float32)
    found = relax.VirtualMachine(built, tvm.cpu())["main"](tvm.runtime.tensor(given))
    np.testing.assert_allclose(found.numpy(), np.exp(given), rtol=1e-6)
