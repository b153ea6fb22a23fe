"""One executable in many threads: kernels of several backends, and our C++ under a sanitizer."""

import os
import subprocess
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Barrier
from typing import Any

import numpy as np
import pytest
import tvm_ffi
from tvm_ffi import libinfo

import collage_dsl as collage
from collage_dsl.backends.base import LibraryBackend
from collage_dsl.backends.runtime.build import make_module
from collage_dsl.graph import Graph, Option
from collage_dsl.realization.executable import ModelExecutable
from tests.cases import slow

from .models import small_convolution

CALLERS = 8
RUNTIME = Path(collage.__file__).parent / "backends" / "runtime"
PROGRAMS = Path(__file__).parent / "runtime"


@tvm_ffi.register_global_func("collage.engine.numpy_softmax", override=True)
def _softmax_engine(symbol: str, payload: bytes, constants: Mapping[str, Any]) -> Any:
    def run(x: Any, y: Any) -> None:
        values = np.from_dlpack(x)
        scores = np.exp(values - values.max(1, keepdims=True))
        np.divide(scores, scores.sum(1, keepdims=True), out=np.from_dlpack(y))

    return run


@dataclass(frozen=True, slots=True)
class Numpy(LibraryBackend):
    """Runs a softmax of Python's own."""

    name: str = "numpy"
    version: str = "1"

    def supports(self, graph: Graph) -> str | None:
        return None

    def codegen(self, graph: Graph, symbol: str, options: Mapping[str, Option]) -> Any:
        return make_module(symbol, "numpy_softmax", b"", {})


SPECS = """
collage 1;
pattern product(x, w, b?: const) { m = matmul(x, w); y = add?(m, b); yield y; }
pattern softmax(x) { y = nn.softmax(x); yield y; }
pattern block(x, w: const, b?: const) {
  c = nn.conv2d(x, w);
  s = add?(c, b);
  y = nn.relu(s);
  yield y;
}
pattern pool(x) { y = mean(x); yield y; }
pattern flat(x) { y = reshape(x, _); yield y; }
target ours on llvm(num_cores: CORES) {
  rules union(dfpattern(block), dfpattern(pool), dfpattern(flat));
}
target library on llvm(num_cores: CORES) { compiler "onnxruntime"; rules dfpattern(product); }
target python on llvm { compiler "numpy"; rules dfpattern(softmax); }
"""


@pytest.fixture(scope="module", params=[slow(1), 2], ids=["one core", "two cores"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved model whose kernels three backends run."""
    specs = collage.load(text=SPECS.replace("CORES", str(request.param)))
    folder = tmp_path_factory.mktemp("mixed")
    options: Any = {"cost": lambda _: 1e-6, "race_seconds": 0.01}
    targets = [*specs.values()]
    compiled = collage.compile(small_convolution(), targets, backends=[Numpy()], **options)
    used = {kernel.candidate.toolchain.name for kernel in compiled.plan.kernels}
    assert used == {"ours", "library", "python"}
    compiled.save(folder / "model")
    return folder / "model"


def call_often(executable: ModelExecutable, calls: int) -> None:
    """Eight threads start at once, each with inputs of its own, and compare all results."""
    inputs = [
        {"x": np.random.default_rng(seed).normal(size=(1, 3, 12, 12)).astype(np.float32)}
        for seed in range(CALLERS)
    ]
    start = Barrier(CALLERS)

    def caller(number: int) -> list[bytes]:
        start.wait()
        order = [(number + at) % CALLERS for at in range(calls)]
        found = {(at, executable.run(inputs[at])["y"].tobytes()) for at in order}
        return [y for _, y in sorted(found)]

    with ThreadPoolExecutor(CALLERS) as pool:
        results = list(pool.map(caller, range(CALLERS)))
    alone = [executable.run(each)["y"].tobytes() for each in inputs]
    assert len(set(alone)) == CALLERS
    assert results == [alone] * CALLERS


def test_threads_that_begin_at_once_get_what_one_thread_gets(folder: Path) -> None:
    call_often(collage.load_executable(folder), 50)


@pytest.mark.slow
def test_many_calls_in_threads_keep_their_memory(folder: Path) -> None:
    executable = collage.load_executable(folder)
    call_often(executable, 2000)
    before = resident()
    call_often(executable, 20_000 // CALLERS)

    assert resident() - before < 1 << 20


def resident() -> int:
    """The bytes of memory that this process holds."""
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


# ---- Our C++ ----


@pytest.mark.parametrize("program", ["cores_in_threads", "kernels_in_threads"])
def test_no_two_threads_race(program: str, tmp_path: Path) -> None:
    """Under ThreadSanitizer, which fails at the first access that nothing orders."""
    library = Path(libinfo.find_libtvm_ffi())
    includes = [f"-I{path}" for path in (RUNTIME, *libinfo.include_paths())]
    compiler = [os.environ.get("CXX", "g++"), "-std=c++17", "-O0", "-pthread"]
    sanitizer = ["-fsanitize=thread", "-Wno-tsan"]
    sources = [str(PROGRAMS / f"{program}.cc"), str(library), f"-Wl,-rpath,{library.parent}"]
    made = tmp_path / program
    subprocess.run(
        [*compiler, *sanitizer, *includes, *sources, "-ldl", "-o", str(made)], check=True
    )

    done = subprocess.run([made], capture_output=True, text=True, check=False)

    assert (done.stdout, done.stderr, done.returncode) == ("0 wrong\n", "", 0)
