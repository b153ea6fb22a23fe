"""Why the versions of TVM are pinned as they are."""

import subprocess
import sys
from importlib.metadata import version

import pytest

SAVE = """
import tvm
from tvm import relax

builder = relax.BlockBuilder()
x = relax.Var("x", relax.TensorType((4,), "float32"))
with builder.function("main", [x]):
    with builder.dataflow():
        y = builder.emit_output(relax.op.nn.relu(x))
    builder.emit_func_output(y)
text = tvm.ir.save_json(builder.get())
tvm.ir.assert_structural_equal(tvm.ir.load_json(text), builder.get())
"""


@pytest.mark.engine
def test_a_module_survives_being_saved() -> None:
    """With apache-tvm-ffi 0.1.15.post1 this is a segmentation fault, hence another process."""
    done = subprocess.run([sys.executable, "-c", SAVE], capture_output=True, text=True)

    assert done.returncode == 0, done.stderr


@pytest.mark.engine
def test_the_pinned_versions_are_installed() -> None:
    assert version("apache-tvm") == "0.27.0.post1"
    assert version("apache-tvm-ffi") == "0.1.14.post1"
