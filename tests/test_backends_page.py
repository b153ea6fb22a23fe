"""The example of `docs/backends.md`: its package, its spec and its commands."""

import re
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx.parser import parse_model

import collage_dsl as collage
from tests.caches import with_compiled_code
from tests.commands import said
from tests.reference import run_onnx

PAGE = (Path(__file__).parents[1] / "docs" / "backends.md").read_text("utf-8")

MODEL = """<ir_version: 8, opset_import: ["": 17]> small (float[4, 8] x) => (float[4, 3] y) {
  a = MatMul (x, w)  b = Relu (a)  y = MatMul (b, v)
}"""


def block(language: str) -> str:
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    return str(found)


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> onnx.ModelProto:
    """A model in the folder in which commands run, with the package installed."""
    described = tmp_path / "site" / "acme-1.0.dist-info"
    described.mkdir(parents=True)
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    points = re.sub(r'^\[project\.entry-points\."(.*)"\]$', r"[\1]", block("toml"), flags=re.M)
    (described / "entry_points.txt").write_text(points.replace('"', ""))
    (tmp_path / "site" / "acme.py").write_text(block("python"))
    (tmp_path / "acme.collage").write_text(block("collage"))
    made, generator = parse_model(MODEL), np.random.default_rng(4)
    for name, shape in {"w": (8, 5), "v": (5, 3)}.items():
        array = generator.normal(size=shape).astype(np.float32)
        made.graph.initializer.append(numpy_helper.from_array(array, name))
    onnx.save(made, tmp_path / "model.onnx")
    with_compiled_code(tmp_path / "cache")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"), prepend=":")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.delitem(sys.modules, "acme", raising=False)
    return made


def ran(*arguments: str) -> str:
    done = said(*arguments)
    assert done.code == 0, done.err
    return done.out


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # of infinities, in numpy
def test_the_backend_of_the_page_computes_what_onnxruntime_does(model: onnx.ModelProto) -> None:
    x = np.random.default_rng(5).normal(size=(4, 8)).astype(np.float32)
    (expected,) = run_onnx(model, {"x": x}).values()

    made = collage.compile(model, ["acme.collage"], cost=lambda kernel: 1e-5)
    made.save("made")
    loaded = collage.load_executable("made")

    assert {kernel.target for kernel in made.plan.kernels} == {"acme"}
    for executable in (made, loaded):
        (found,) = executable.run({"x": x}).values()
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.usefixtures("model")
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # of infinities, in numpy
def test_the_commands_of_the_page_run() -> None:
    assert "ok  backend acme: acme:Acme\nok  engine acme: acme:engine\n" in ran("doctor")
    assert ran("check", "acme.collage") == "1 file checked, nothing found\n"
    assert ran("test", "acme.collage") == "1 test passed\n"
    for line in block("sh").splitlines():
        command, *arguments = line.partition("#")[0].split()
        assert command == "collage"
        ran(*arguments)
    ran("compile", "model.onnx", "-t", "acme.collage", "-o", "alone")
    assert "float32[4, 3]" in ran("run", "alone")
