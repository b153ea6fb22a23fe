"""The commands as a user types them: answers, messages and exit codes."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from collage_dsl.cost import CostStore
from tests.commands import FIVE_MISTAKES, assert_one_message, said
from tests.models import small_convolution, small_product
from tests.reference import run_onnx

SPECS = Path(__file__).parent.parent / "specs"
COSTS = """
tvm: {launch: 1.0e-6, ops: {nn.conv2d: 1.0e-3, "*": 1.0e-5}}
onnxruntime: {launch: 4.0e-6, ops: {nn.conv2d: 5.0e-4, "*": 2.0e-5}}
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "small.onnx"
    onnx.save(small_convolution(), path)
    return path


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose kernels are measured."""
    path = tmp_path_factory.mktemp("product") / "product.onnx"
    onnx.save(small_product(), path)
    return path


@pytest.fixture(scope="module")
def costs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("costs") / "costs.yaml"
    path.write_text(COSTS)
    return path


@pytest.mark.parametrize("command", ["check", "fmt", "test"])
def test_a_folder_without_spec_files_is_a_mistake(command: str, tmp_path: Path) -> None:
    done = said(command, tmp_path)

    assert (done.code, done.out) == (2, "")
    assert done.err == f"error: there is no `.collage` file in {tmp_path}\n"


def test_check_shows_five_independent_mistakes_where_they_are(tmp_path: Path) -> None:
    path = tmp_path / "five.collage"
    path.write_text(FIVE_MISTAKES)

    done = said("check", path, "--output-format", "json")

    found = json.loads(done.out)["diagnostics"]
    assert done.code == 1
    assert [(d["line"], d["column"]) for d in found] == [(4, 7), (5, 7), (6, 25), (7, 15), (11, 26)]
    assert len({d["code"] for d in found}) >= 4
    assert said("check", path).code == 1
    assert len(said("check", path, "--output-format", "concise").out.splitlines()) == 5


def test_check_needs_no_tvm(tmp_path: Path) -> None:
    hidden = tmp_path / "hidden"
    for name in ("tvm", "tvm_ffi", "onnx", "onnxruntime", "numpy"):
        (hidden / name).mkdir(parents=True)
        (hidden / name / "__init__.py").write_text("raise ModuleNotFoundError(name=__name__)")
    program = "from collage_dsl.cli.main import main; main()"
    arguments = ["check", str(SPECS / "native.collage")]

    program = f"import sys; sys.path.insert(0, {str(hidden)!r}); {program}"
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True
    )

    assert (done.returncode, done.stdout) == (0, "1 file checked, nothing found\n")


def test_the_shipped_specs_are_clean() -> None:
    done = said("check", *sorted(SPECS.glob("*.collage")))

    assert (done.code, done.err) == (0, "")


def test_plan_covers_every_operator_once_in_order(model: Path, costs: Path) -> None:
    done = said(
        *("plan", model, "-t", "native", "-t", "onnxruntime", "--costs", costs),
        *("--output-format", "json"),
    )

    plan = json.loads(done.out)
    nodes = [node for kernel in plan["kernels"] for node in kernel["nodes"]]
    assert done.code == 0
    assert len(nodes) == len(set(nodes)) == plan["operators"]
    assert plan["cost"] == pytest.approx(sum(kernel["cost"] for kernel in plan["kernels"]))
    assert {"target", "label", "nodes", "cost"} <= plan["kernels"][0].keys()
    assert plan["kernels"][0]["target"] == "onnxruntime"
    assert plan["kernels"][-1]["nodes"][-1] == "y"


def test_plan_draws_the_model_with_its_kernels(model: Path, tmp_path: Path) -> None:
    costs, picture = tmp_path / "costs.yaml", tmp_path / "plan.svg"
    costs.write_text('tvm: {ops: {"*": 1.0e-5}}\n')

    done = said("plan", model, "-t", "native", "--costs", costs, "--picture", picture)

    assert done.code == 0
    assert "<text" in picture.read_text("utf-8")
    nowhere = tmp_path / "none" / "plan.svg"
    done = said("plan", model, "-t", "native", "--costs", costs, "--picture", nowhere)
    assert_one_message(done, 2, "plan.svg")


def test_a_light_model_has_a_name_for_each_command(costs: Path) -> None:
    planned = said("plan", "squeezenet", "-t", "native", "--costs", costs)
    listed = said("candidates", "squeezenet", "-t", "native")

    assert (planned.code, listed.code) == (0, 0), planned.err
    assert "91 operators" in planned.out


def test_candidates_lists_what_the_rules_propose(model: Path) -> None:
    done = said("candidates", model, "-t", SPECS / "onnxruntime.collage", "--output-format", "json")

    found = json.loads(done.out)["candidates"]
    assert done.code == 0
    assert ["conv.conv2d", "conv", "relu"] in [candidate["nodes"] for candidate in found]


def test_compile_saves_what_run_runs(product: Path, tmp_path: Path) -> None:
    store = tmp_path / "costs.sqlite"
    compiled = said(
        *("compile", product, "-t", "native", "-t", "onnxruntime", "-o", tmp_path / "out"),
        *("--store", store, "--output-format", "json"),
    )
    assert compiled.code == 0, compiled.err
    report = json.loads(compiled.out)
    assert report["verification"]["passed"]

    x = np.random.default_rng(0).normal(size=(4, 6)).astype(np.float32)
    np.savez(tmp_path / "in.npz", x=x)
    ran = said(
        *("run", tmp_path / "out", "--inputs", tmp_path / "in.npz"),
        *("--outputs", tmp_path / "result.npz", "--output-format", "json"),
    )
    assert ran.code == 0, ran.err
    with np.load(tmp_path / "result.npz") as arrays:
        np.testing.assert_allclose(arrays["y"], run_onnx(small_product(), {"x": x})["y"], rtol=1e-5)
    assert json.loads(ran.out)["outputs"]["y"]["shape"] == [4, 3]


def test_compile_verifies_on_given_inputs(product: Path, tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(4, 6)).astype(np.float32)
    np.savez(tmp_path / "in.npz", x=x)
    np.savez(tmp_path / "other.npz", x=x[:, 1:])
    command = ("bench", product, "-t", "native", "--store", tmp_path / "costs", "--inputs")

    done = said(*command, tmp_path / "in.npz", "--output-format", "json")
    shown = said(*command, tmp_path / "in.npz")
    other = said(*command, tmp_path / "other.npz")
    missing = said(*command, tmp_path / "none.npz")

    verification = json.loads(done.out)["verification"]
    assert verification["draws"][0] == "given"
    assert verification["kernel"]["node"] in verification["kernel"]["nodes"]
    assert verification["output"]["node"] == "y"
    assert "inputs: given, usual, large, tiny, negative" in shown.out
    assert other.code == 1
    assert other.err.endswith("input `x` is float32[4, 5], the model takes float32[4, 6]\n")
    assert_one_message(missing, 2, "none.npz")


def test_plan_and_compile_share_the_costs_of_kernels_at_given_sizes(tmp_path: Path) -> None:
    made = onnx.parser.parse_model(
        """<ir_version: 9, opset_import: ["": 17]> g (float[n, 8] x) => (float[n, 8] y) {
            e = Exp(x)
            y = Softmax(e)
        }"""
    )
    onnx.save(made, tmp_path / "m.onnx")
    np.savez(tmp_path / "in.npz", x=np.random.default_rng(0).normal(size=(50, 8)).astype("float32"))
    common = (tmp_path / "m.onnx", "-t", "native", "--store", tmp_path / "costs")
    given = ("--inputs", tmp_path / "in.npz", "--output-format", "json")

    def measured(*command: object) -> int:
        found = said(*command)
        assert found.code == 0, found.err
        return int(json.loads(found.out)["measurements"]["measured"])

    assert measured("plan", *common, *given) > 0
    assert measured("bench", *common, *given) == 0
    assert measured("plan", *common, "--output-format", "json") > 0  # at another size


def test_what_the_reference_refuses_is_said_with_what_to_do(tmp_path: Path) -> None:
    """In lines, and without the places in the code of onnxruntime."""
    made = onnx.parser.parse_model(
        """<ir_version: 9, opset_import: ["": 17]>
        g (float[4] x, float[4] z) => (float[4] y) { y = Mod(x, z) }"""
    )
    onnx.save(made, tmp_path / "m.onnx")

    done = said("bench", tmp_path / "m.onnx", "-t", "native", "--store", tmp_path / "costs")

    assert done.code == 1
    assert "\n".join(done.err.splitlines()[-2:]) == (
        "error: onnxruntime does not run the model on random inputs: Non-zero status code returned "
        "while running Mod node. Name:'' Status Message: fmod was false. fmod attribute must be "
        "true for floating point types\n"
        "help: give inputs that the model accepts, with `--inputs FILE.npz`"
    )


def unknown_operator() -> onnx.ModelProto:
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Foo", ["x"], ["y"], name="foo_1")],
        "unknown",
        [value("x", TensorProto.FLOAT, [3])],
        [value("y", TensorProto.FLOAT, [3])],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)


def test_a_file_that_is_not_onnx(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_text("this is prose")

    assert_one_message(said("candidates", path, "-t", "native"), 1, "model.onnx")


def test_a_model_that_is_not_there(tmp_path: Path) -> None:
    done = said("candidates", tmp_path / "none.onnx", "-t", "native")

    assert_one_message(done, 2, "none.onnx")


def test_links_that_lead_to_themselves_are_refused_before_any_work(
    model: Path, tmp_path: Path
) -> None:
    loop = tmp_path / "loop.onnx"
    loop.symlink_to(loop)

    assert_one_message(said("show", str(loop)), 2, "it is a link that leads to itself")
    for command, written in (("compile", loop / "out"), ("freeze", loop)):
        options = ["-t", "native", "--costs", "analytic", "-o", str(written)]
        done = said(command, str(model), *options)
        assert_one_message(done, 2, f"cannot write {written}: it is a link that leads to itself")


def test_more_cores_than_any_machine_has_are_refused(model: Path) -> None:
    done = said("plan", str(model), "-t", "native", "--num-cores", "99999999999999999999")

    assert done.code == 2
    assert "99999999999999999999 is not in the range" in done.err


def test_an_operator_that_cannot_be_imported_is_named_with_its_node(tmp_path: Path) -> None:
    onnx.save(unknown_operator(), tmp_path / "foo.onnx")

    done = said("candidates", tmp_path / "foo.onnx", "-t", "native")

    assert_one_message(done, 1, "Foo", "foo_1")


def test_a_spec_that_is_not_there(model: Path) -> None:
    done = said("candidates", model, "-t", "specs/nowhere.collage")

    assert_one_message(done, 2, "there is no spec file specs/nowhere.collage", "native")


def test_a_target_that_the_spec_does_not_have(model: Path) -> None:
    done = said("candidates", model, "-t", f"{SPECS / 'native.collage'}#tmv")

    assert_one_message(done, 2, "has no target `tmv`; did you mean `tvm`?")


def test_a_spec_with_mistakes_shows_them_all(model: Path, tmp_path: Path) -> None:
    path = tmp_path / "five.collage"
    path.write_text(FIVE_MISTAKES)

    done = said("candidates", model, "-t", path)

    assert done.code == 1
    assert done.err.count("error[") == 5


def test_a_compiler_that_nothing_provides(model: Path, tmp_path: Path, costs: Path) -> None:
    path = tmp_path / "other.collage"
    path.write_text(
        'collage 1;\ntarget t on llvm { compiler "onnxruntim"; rules op_call_by_kind(); }'
    )

    done = said("plan", model, "-t", path, "--store", tmp_path / "costs.sqlite")
    named = "no backend is named `onnxruntim`"
    assert_one_message(done, 2, named, "did you mean `onnxruntime`?", "install the package")
    # Proposing needs no backend.
    assert said("candidates", model, "-t", path).code == 0


def test_an_output_folder_that_cannot_be_written_is_refused_before_any_work(
    model: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("mine")

    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        done = said(
            *("compile", model, "-t", "native", "-o", folder, "--store", tmp_path / "c.sqlite")
        )
        assert_one_message(done, 2, "cannot write")
    assert (tmp_path / "file").read_text() == "mine"
    assert not (tmp_path / "c.sqlite").exists()


def test_a_damaged_store(model: Path, tmp_path: Path) -> None:
    store = tmp_path / "costs.sqlite"
    store.write_bytes(b"not a database" * 100)

    done = said("plan", model, "-t", "native", "--store", store)

    assert done.code == 2
    assert "cannot use the cost store" in done.err
    assert store.read_bytes() == b"not a database" * 100


def test_a_wrong_cost_table(model: Path, tmp_path: Path) -> None:
    (tmp_path / "costs.yaml").write_text("tvm: {ops: {a: cheap}}")

    done = said("plan", model, "-t", "native", "--costs", tmp_path / "costs.yaml")

    assert_one_message(done, 1, "tvm.ops.a: this should be a valid number")


@pytest.mark.parametrize("shape", ["x", "x=1,a b", "=1"])
def test_a_shape_that_is_not_one(model: Path, shape: str) -> None:
    done = said("candidates", model, "-t", "native", "--shape", shape)

    assert_one_message(done, 2, "write it as NAME=1,3,224,224")


def test_run_on_a_folder_without_a_model(tmp_path: Path) -> None:
    assert_one_message(said("run", tmp_path), 2, "holds no compiled model")


def test_run_on_a_folder_that_is_not_there(tmp_path: Path) -> None:
    message = f"{tmp_path / 'out'} does not exist; `collage compile -o` writes such a folder"
    assert_one_message(said("run", tmp_path / "out"), 2, message)


def test_run_on_a_damaged_folder(tmp_path: Path) -> None:
    (tmp_path / "model.so").write_text("no library")
    (tmp_path / "signature.json").write_text('{"inputs": [], "outputs": []}')

    assert_one_message(said("run", tmp_path), 1, "is damaged")


def test_a_wrong_option_ends_with_2() -> None:
    done = said("plan", "--no-such-option")

    assert done.code == 2
    assert "--no-such-option" in done.err


def test_the_choices_of_a_missing_option_are_on_its_line(tmp_path: Path) -> None:
    done = said("convert", tmp_path / "a.collage")

    assert done.code == 2
    assert "Choose from: json, yaml, collage" in done.err


def test_doctor_finds_nothing_missing_here() -> None:
    done = said("doctor", "--output-format", "json")

    findings = {finding["what"]: finding for finding in json.loads(done.out)["findings"]}
    assert done.code == 0
    assert findings["apache-tvm-ffi"]["found"] == "0.1.14.post1"
    assert not any(finding["advice"] for finding in findings.values())


def test_the_store_holds_what_plan_measured(product: Path, tmp_path: Path) -> None:
    store = tmp_path / "costs.sqlite"
    # This strategy prices every kernel. Which kernels the others price, depends on the costs.
    options = ("--strategy", "exhaustive", "--store", store, "--output-format", "json")
    first = said("plan", product, "-t", "native", *options)
    second = said("plan", product, "-t", "native", *options)

    measured = json.loads(first.out)["measurements"]
    reused = json.loads(second.out)["measurements"]
    assert measured["measured"] > 0
    assert (reused["measured"], reused["reused"]) == (0, measured["found"])
    with CostStore(store) as costs:
        assert len(costs) >= measured["measured"]


def test_candidates_of_a_graph_in_text_need_no_model(tmp_path: Path) -> None:
    graph, spec = tmp_path / "m.graph", tmp_path / "s.collage"
    graph.write_text("x: f32[4];\ny = nn.relu(x);\nreturn y;\n")
    spec.write_text("collage 1;\ntarget t on llvm { rules op_call_by_kind(); }\n")

    done = said("candidates", graph, "-t", spec)

    assert (done.code, done.err) == (0, "")
    assert "1 candidate" in done.out
    refused = said("plan", graph, "-t", spec)
    assert_one_message(refused, 1, "a graph in text is read by the commands `show`, `coverage`")
