"""What packages declare that fails in any way: messages name it, and what the package raised."""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import tvm_ffi
from onnx.parser import parse_model

import collage_dsl as collage
from collage_dsl.backends.base import LibraryBackend
from collage_dsl.backends.onnxruntime import OnnxRuntime
from collage_dsl.backends.registry import BackendError, find_backend, refusal
from collage_dsl.backends.runtime.build import make_module
from collage_dsl.cost import Cost
from collage_dsl.engine.predicates import lookup
from collage_dsl.graph import CandidateKernel, Graph, Option
from collage_dsl.rules import Trace
from tests.caches import with_compiled_code
from tests.commands import said
from tests.declared import declare
from tests.reference import run_onnx

BACKENDS = """
import sys
from collage_dsl.backends.base import LibraryBackend
from collage_dsl.backends.onnxruntime import OnnxRuntime

class Named(LibraryBackend):
    __slots__ = ()
    version = "1"
    variants = ()
    @property
    def name(self):
        return type(self).__name__
    def supports(self, graph):
        return None
    def codegen(self, graph, symbol, options):
        return None

class missing(LibraryBackend):
    def supports(self, graph):
        return None

class argument(Named):
    def __init__(self, path):
        pass

class number(Named):
    version = 3

class lists(Named):
    variants = ["fast"]

class library(Named):
    variants = ("fast",)

class raising(Named):
    @property
    def version(self):
        raise KeyError("driver")

def boom():
    raise RuntimeError("no card\\nand a long story")

def leaving():
    sys.exit(4)

def other():
    return OnnxRuntime()

five = 5
"""


@pytest.mark.parametrize(
    ("point", "message"),
    [
        ("absent", "cannot load .*: AttributeError: module 'pricing' has no attribute 'absent'"),
        ("missing", "cannot make .*: TypeError: .* abstract methods codegen, name, version"),
        ("argument", "cannot make .*: TypeError: .* missing 1 required positional argument"),
        ("boom", "cannot make the backend `boom` \\(pricing:boom\\): RuntimeError: no card$"),
        ("leaving", "cannot make .*: SystemExit: 4"),
        ("five", "cannot make .*: TypeError: 'int' object is not callable"),
        ("number", "cannot use .*: its `version` is 3, and not a string"),
        ("lists", "cannot use .*: its `variants` are \\['fast'\\], and not a tuple of strings"),
        ("library", "cannot use .*: it has `variants`, which only kernels that TVM makes can have"),
        ("raising", "cannot use .*: KeyError: 'driver'"),
        ("other", "cannot use .*: its `name` is `onnxruntime`, and the entry point has another"),
    ],
)
def test_a_backend_that_cannot_be_used_is_named(
    point: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    declare(monkeypatch, tmp_path / "site", BACKENDS, {point: point}, "backends")

    with pytest.raises(BackendError, match=message):
        find_backend(point)


def test_the_command_says_which_backend_cannot_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    declare(monkeypatch, tmp_path / "site", BACKENDS, {"boom": "boom"}, "backends")
    spec, model = tmp_path / "boom.collage", tmp_path / "model.onnx"
    spec.write_text(
        'collage 1;\ntarget boom on llvm { compiler "boom"; rules op_call_by_kind(); }\n'
    )
    onnx.save(MODEL, model)

    done = said("plan", model, "-t", spec, "--store", tmp_path / "costs.sqlite")

    assert done.code == 2
    assert (
        "error: cannot make the backend `boom` (pricing:boom): RuntimeError: no card\n" in done.err
    )
    assert "defect" not in done.err


def test_a_backend_of_ours_comes_before_one_of_a_package_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    declare(monkeypatch, tmp_path / "site", BACKENDS, {"onnxruntime": "boom"}, "backends")

    assert find_backend("onnxruntime") == OnnxRuntime()


def test_doctor_says_which_of_them_cannot_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = {"boom": "boom", "good": "good", "onnxruntime": "boom"}
    text = BACKENDS + "\nclass good(Named):\n    pass\n"
    declare(monkeypatch, tmp_path / "site", text, points, "backends")

    done = said("doctor")

    assert done.code == 2
    assert "ok  backend good: pricing:good\n" in done.out
    assert "!!  backend boom: pricing:boom\n     cannot make the backend `boom`" in done.out
    assert (
        "!!  backend onnxruntime: pricing:boom\n     collage_dsl has one of this name" in done.out
    )


# ---- Given backends ----

MODEL = parse_model(
    '<ir_version: 8, opset_import: ["": 17]> m (float[4, 8] x) => (float[4, 8] y)'
    "{ a = Exp (x) y = Relu (a) }"
)


@dataclass(frozen=True, slots=True)
class Doubtful(LibraryBackend):
    """A backend of which `supports` gives, or raises, and `codegen` returns, what it is told."""

    answer: object = None
    made: str = "nothing"

    @property
    def name(self) -> str:
        return "doubtful"

    @property
    def version(self) -> str:
        return "1"

    def supports(self, graph: Graph) -> str | None:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer  # type: ignore[return-value]

    def codegen(self, graph: Graph, symbol: str, options: Mapping[str, Option]) -> Any:
        match self.made:
            case "nothing":
                return None
            case "other":
                return make_module("other", "plug_in", b"", {})
            case "c":
                return _c_module(symbol)
            case "engine":
                return make_module(symbol, "plug_in", b"", {})
        raise KeyError("conv")


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (True, "it returned True, and not None or a reason"),
        (False, "it returned False, and not None or a reason"),
        (KeyError("conv"), "has failed: KeyError: 'conv'"),
    ],
)
def test_a_backend_that_does_not_say_what_it_supports_is_no_refusal(
    answer: object, message: str
) -> None:
    graph = collage.parse_graph("graph { x: f32[4]; y = exp(x); return y; }")
    backend = Doubtful(answer)

    with pytest.raises(BackendError, match=f"`doubtful`, asked about exp, .*{message}"):
        refusal(backend, graph)
    found = collage.gather({"kind": "llvm", "feature.compiler": "doubtful"}, backends=[backend])
    with pytest.raises(collage.PredicateError, match=message):
        list(found.candidates(graph, Trace(lookup=lookup(backends=[backend]))))


def price(kernel: CandidateKernel) -> Cost:
    return 1e-5 * len(kernel.nodes)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        ("nothing", "`codegen` returned None, and not a tvm.runtime.Module"),
        ("other", "`codegen` returned a module that has no function `"),
        ("raises", "`doubtful` cannot make kernel `.*`: KeyError: 'conv'"),
    ],
)
def test_a_kernel_that_a_backend_does_not_make_is_named(made: str, message: str) -> None:
    with pytest.raises(collage.BuildError, match=message):
        compiled(Doubtful(made=made))


def compiled(backend: LibraryBackend) -> Any:
    target = {"kind": "llvm", "feature.compiler": backend.name}
    return collage.compile(MODEL, [target], cost=price, backends=[backend])


def _c_module(symbol: str) -> Any:
    """C source of exp and relu, of 32 numbers."""
    code = f"""
#include <math.h>
#include <tvm/ffi/c_api.h>
static float* at(const TVMFFIAny* each) {{
  DLTensor* tensor = each->type_index == kTVMFFITensor
      ? (DLTensor*)((char*)each->v_obj + sizeof(TVMFFIObject)) : (DLTensor*)each->v_ptr;
  return (float*)((char*)tensor->data + tensor->byte_offset);
}}
#ifdef __cplusplus
extern "C"
#endif
int __tvm_ffi_{symbol}(void* self, const TVMFFIAny* args, int32_t count, TVMFFIAny* result) {{
  for (int i = 0; i < 32; ++i) at(args + 1)[i] = expf(at(args)[i]);
  return 0;
}}
"""
    return tvm_ffi.get_global_func("runtime.CSourceModuleCreate")(code, "c", [symbol], [])


def test_a_model_with_kernels_in_c_can_be_saved(tmp_path: Path) -> None:
    x = np.random.default_rng(3).normal(size=(4, 8)).astype(np.float32)

    compiled(Doubtful(made="c")).save(tmp_path / "out")

    found = collage.load_executable(tmp_path / "out").run({"x": x})["y"]
    np.testing.assert_allclose(found, run_onnx(MODEL, {"x": x})["y"], rtol=1e-5)


ENGINE = """
import numpy as np

def plug_in(symbol, payload, constants):
    def run(x, y):
        x, y = np.from_dlpack(x), np.from_dlpack(y)
        if x[0, 0] == 7:
            raise ValueError("seven")
        with np.errstate(all="ignore"):
            y[...] = np.exp(x)
    return run
"""


def test_a_saved_model_finds_the_engine_that_a_package_declares(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = """
import sys, numpy as np, collage_dsl as collage
if sys.argv[2:]:
    sys.path.insert(0, sys.argv[2])
try:
    exe = collage.load_executable(sys.argv[1])
    print(exe.run({"x": np.zeros((4, 8), np.float32)})["y"].sum())
    exe.run({"x": np.full((4, 8), 7, np.float32)})
except Exception as error:
    print(type(error).__name__, error)
"""
    site, out = tmp_path / "site", tmp_path / "out"
    name = "collage.engine.plug_in"
    declare(monkeypatch, site, ENGINE, {"plug_in": "plug_in"}, "engines")
    scope: dict[str, Any] = {}
    exec(ENGINE, scope)
    tvm_ffi.register_global_func(name, scope["plug_in"])
    try:
        compiled(Doubtful(made="engine")).save(out)
    finally:
        tvm_ffi.registry.remove_global_func(name)

    def ran(*folders: Path) -> str:
        command = [sys.executable, "-c", program, str(out), *map(str, folders)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    total, failed = ran(site).splitlines()
    assert total == "32.0"
    assert "the engine `plug_in` (pricing:plug_in) cannot run kernel" in failed
    assert ": ValueError: seven" in failed
    without = ran()
    assert without.startswith(f"ExecutableError cannot load {out}: kernel ")
    assert "needs the engine `plug_in`: install the Python package that declares it" in without


# ---- Sources of costs, and strategies ----


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("raise KeyError('no price')", "KeyError: 'no price'"),
        ("import sys; sys.exit(7)", "SystemExit: 7"),
    ],
)
def test_a_source_of_costs_that_fails_is_named(
    body: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    declare(monkeypatch, tmp_path / "site", f"def mine(kernel):\n    {body}\n", {"mine": "mine"})
    model = tmp_path / "model.onnx"
    onnx.save(MODEL, model)

    done = said("plan", model, "-t", "native", "--costs", "mine", "--output-format", "json")

    assert (done.code, done.out) == (2, "")
    assert "error: the source of costs `mine` (pricing:mine) has failed for " in done.err
    assert done.err.endswith(f" on tvm: {message}\n")


def test_what_plug_ins_print_is_no_part_of_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "print('loaded')\ndef mine(kernel):\n    print('asked')\n    return 1e-6\n"
    declare(monkeypatch, tmp_path / "site", text, {"mine": "mine"})
    model = tmp_path / "model.onnx"
    onnx.save(MODEL, model)

    done = said("plan", model, "-t", "native", "--costs", "mine", "--output-format", "json")

    assert done.code == 0, done.err
    assert {kernel["source"] for kernel in json.loads(done.out)["kernels"]} == {"mine"}
    assert done.err.startswith("loaded\nasked\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def mine(problem): raise OSError('solver died')", "has failed: OSError: solver died"),
        ("def mine(problem): raise SystemExit(7)", "has failed: SystemExit: 7"),
        ("def mine(): return None", "has failed: TypeError: mine"),
        ("mine = 5", "is no function: 5"),
        ("", "cannot load .*has no attribute 'mine'"),
        (
            "def mine(problem): return problem.plan(problem.candidates)",
            "`mine` has answered with no plan: two kernels have `a`",
        ),
    ],
)
def test_a_strategy_of_a_package_that_fails_is_named(
    text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    declare(monkeypatch, tmp_path / "site", text, {"mine": "mine"}, "strategies")
    graph = collage.parse_graph("graph { x: f32[4]; a = exp(x); y = nn.relu(a); return y; }")
    found = collage.propose(graph, *collage.load("specs/native.collage").values())

    with pytest.raises(collage.StrategyError, match=message):
        collage.choose(graph, found, cost=price, strategy="mine")


def test_a_strategy_is_not_asked_for_a_target_that_cannot_run_a_model_alone(tmp_path: Path) -> None:
    from collage_dsl.search import Plan, Problem

    with_compiled_code(tmp_path / "cache")

    def smallest(problem: Problem) -> Plan:
        return problem.plan([each for each in problem.candidates if len(each.nodes) == 1])

    text = """collage 1;
pattern one(x) { y = exp(x); yield y; }
pattern two(x) { y = nn.relu(x); yield y; }
target first on llvm { rules dfpattern(one); }
target second on llvm { rules dfpattern(two); }
"""
    made = collage.compile(
        MODEL, [*collage.load(text=text).values()], cost=price, strategy=smallest
    )

    assert [kernel.target for kernel in made.plan.kernels] == ["first", "second"]
