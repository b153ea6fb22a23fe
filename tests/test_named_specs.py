"""Targets as users name them, in Python as on the command line; and paths that are strings."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from tvm import relax

import collage_dsl as collage
from collage_dsl import builder
from collage_dsl.cli.targets import load_targets
from collage_dsl.cost import CostStore, CostTable, Measurement
from collage_dsl.engine.named import UnknownTarget, specs_named
from collage_dsl.engine.specs import specs_of
from collage_dsl.resources import shipped_specs
from tests.commands import said
from tests.models import small_convolution, small_product
from tests.test_partition_pass import callees, chain, price

TWO = """\
collage 1;
target a on llvm { rules op_call_by_kind(); }
target b on llvm { rules op_call_by_kind(elementwise); }
"""


@pytest.fixture
def two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "two.collage").write_text(TWO)
    return tmp_path


def names(*targets: Any) -> list[str]:
    return [spec.name for spec in specs_of(targets)]


def test_python_and_the_command_line_name_the_same_specs(two: Path) -> None:
    named = ["two.collage#b", "native", "onnxruntime#onnxruntime", str(two / "two.collage#a")]

    assert names(*named) == ["b", "tvm", "onnxruntime", "a"]
    assert specs_of(named) == list(load_targets(named))


def test_commands_that_read_specs_take_the_same_names(two: Path) -> None:
    whole, one = (
        said("convert", name, "--to", "json") for name in ("two.collage", "two.collage#b")
    )
    assert ['"a"' in done.out for done in (whole, one)] == [True, False]
    assert said("convert", "two.collage#c", "--to", "json").err.startswith(
        "error: two.collage has no target `c`"
    )
    Path("two.json").write_text(whole.out)
    assert said("convert", "two.json#b", "--to", "json").out == one.out

    assert said("convert", "native", "--to", "yaml").code == 0
    assert said("check", "native", "onnxruntime").out == "2 files checked, nothing found\n"
    assert said("test", "native").code == 0


@pytest.mark.parametrize("name", ["std/activations.collage", "std/activations"])
def test_shipped_files_of_std_go_by_the_name_that_imports_write(two: Path, name: str) -> None:
    shown = said("example", f"{name}#silu")
    assert (shown.code, shown.err) == (0, "")
    assert "expect matches(silu" in shown.out
    assert said("check", name).out == "1 file checked, nothing found\n"
    assert said("test", name).code == 0
    assert said("breaking", name, "std/activations").code == 0
    refused = said("convert", name, "--to", "json")
    assert refused.err.startswith(f"error: {name}: it has no target")


@pytest.mark.parametrize(
    "name", ["std/none.collage", "../specs/native", "std/../native", "/native"]
)
def test_other_paths_name_no_shipped_file(two: Path, name: str) -> None:
    assert said("example", f"{name}#silu").err.startswith(f"error: there is no spec file {name}")
    assert said("check", name).code == 2
    assert said("breaking", "native", "native").out.endswith("nothing changed\n")
    assert said("fmt", "--check", "native").code == 2
    assert said("check", "--fix", "native").code == 2


def test_every_command_finds_imports_where_the_configuration_says(two: Path) -> None:
    (two / "common").mkdir()
    (two / "common" / "shared.collage").write_text(
        "collage 1;\npattern p(x) { y = nn.relu(x); yield y; }\n"
    )
    (two / "pyproject.toml").write_text('[tool.collage]\npath = ["common"]\n')
    (two / "mine.collage").write_text(
        'collage 1;\nimport "shared.collage" only (p);\ntarget t on llvm { rules dfpattern(p); }\n'
    )
    (two / "m.graph").write_text("x: f32[4]; y = nn.relu(x); return y;\n")

    for command in (
        ("check", "mine.collage"),
        ("convert", "mine.collage", "--to", "yaml"),
        ("embed", "mine.collage"),
        ("candidates", "m.graph", "-t", "mine.collage"),
        ("coverage", "m.graph", "-t", "mine.collage"),
        ("why", "mine.collage#p", "m.graph", "--at", "y"),
        ("near", "mine.collage#p", "m.graph"),
        ("example", "mine.collage#p"),
    ):
        done = said(*command)
        assert (done.code, done.err) == (0, ""), command


def test_a_name_without_a_target_stands_for_all_in_the_file(two: Path) -> None:
    assert names("two.collage", Path("two.collage")) == ["a", "b", "a", "b"]


def test_a_file_goes_before_the_shipped_spec_of_its_name(two: Path) -> None:
    assert names("native") == ["tvm"]
    (two / "native").write_text(TWO)
    assert names("native#b") == ["b"]


def test_a_folder_does_not_hide_the_shipped_spec_of_its_name(two: Path) -> None:
    (two / "native").mkdir()
    assert names("native") == ["tvm"]


def test_a_path_object_is_always_a_file(two: Path) -> None:
    with pytest.raises(Exception, match="cannot read native: there is no such file"):
        names(Path("native"))


@pytest.mark.parametrize("file", ["c#/two.collage", "two#.collage"])
def test_a_path_may_have_the_sign_that_begins_the_name_of_a_target(two: Path, file: str) -> None:
    (two / file).parent.mkdir(exist_ok=True)
    (two / file).write_text(TWO)

    assert names(file) == ["a", "b"]
    assert names(f"{file}#b") == ["b"]


@pytest.mark.parametrize("named", ["nativ", "nativ#tvm", "no/such.collage", TWO * 20])
def test_a_name_that_nothing_has_is_told_which_specs_ship(named: str) -> None:
    with pytest.raises(UnknownTarget, match="there is no spec file") as caught:
        specs_named(named)
    assert str(caught.value).endswith("the specs that ship are " + ", ".join(shipped_specs()))


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ("#a", "target '#a' names no file: write FILE or FILE#NAME"),
        ("two.collage#c", "two.collage has no target `c`; it has a, b"),
        ("onnxruntime#onxruntime", "has no target `onxruntime`; did you mean `onnxruntime`?"),
        ("empty.collage", "empty.collage has no target"),
        ("folder", "cannot read folder: it is a folder"),
    ],
)
def test_a_name_that_cannot_be_meant_is_refused(two: Path, named: str, said: str) -> None:
    (two / "empty.collage").write_text("collage 1;\n")
    (two / "folder").mkdir()

    with pytest.raises(UnknownTarget) as caught:
        specs_of([named])
    assert said in str(caught.value)


def test_the_pass_takes_shipped_specs_by_name() -> None:
    module = chain(relax.op.exp, relax.op.nn.relu)
    result = collage.CollagePartition(["native", "onnxruntime#onnxruntime"], price)(module)

    assert callees(result["main"].body.blocks[0]) == ["tvm_exp_relu"]


def test_a_model_is_compiled_saved_and_loaded_with_strings_for_paths(tmp_path: Path) -> None:
    model, costs, folder = (str(tmp_path / name) for name in ("m.onnx", "costs.yaml", "out"))
    onnx.save(small_convolution(), model)
    Path(costs).write_text('{tvm: {ops: {"*": 1.0e-6}}, onnxruntime: {ops: {"*": 1.0e-5}}}')

    compiled = collage.compile(
        model,
        targets=["native", "onnxruntime"],
        cost=costs,
        store=str(tmp_path / "costs.sqlite"),
        race_seconds=0.01,
    )
    compiled.save(folder)

    inputs = {"x": np.ones((1, 3, 12, 12), np.float32)}
    loaded = collage.load_executable(folder).run(inputs)
    np.testing.assert_array_equal(loaded["y"], compiled.run(inputs)["y"])


def test_kernels_are_measured_into_a_store_whose_path_is_a_string(tmp_path: Path) -> None:
    store = str(tmp_path / "costs.sqlite")
    compiled = collage.compile(small_product(), ["native"], store=store, race_seconds=0.01)

    assert compiled.report.measurements.measured > 0
    with CostStore(store) as kept:
        assert len(kept) >= compiled.report.measurements.measured


def test_stores_and_tables_take_strings_for_paths(tmp_path: Path) -> None:
    (tmp_path / "costs.yaml").write_text("tvm: {ops: {exp: 1.0}}")
    assert CostTable.load(str(tmp_path / "costs.yaml")).targets.keys() == {"tvm"}

    with CostStore(str(tmp_path / "new" / "costs.sqlite")) as store:
        store.put(Measurement("kernel", "context", "label", 1.0))
    assert (tmp_path / "new" / "costs.sqlite").is_file()


def test_imports_are_searched_for_in_folders_that_are_strings(tmp_path: Path) -> None:
    (tmp_path / "lib.collage").write_text("collage 1;\nlet act = one_of(nn.relu, tanh);\n")
    text = 'collage 1;\nimport "lib.collage" only (act);\npattern p(x) { y = act(x); yield y; }\n'

    assert list(collage.patterns(text=text, search=[str(tmp_path)])) == ["p"]
    assert list(builder.imported("lib.collage", search=[str(tmp_path)])) == ["act"]


def test_a_shipped_spec_is_read_once() -> None:
    assert specs_named("native")[0] is specs_named("native")[0]
