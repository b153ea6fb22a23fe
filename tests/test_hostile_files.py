"""Files and streams that are not what a command expects: a pipe, a closed stream, odd YAML."""

import os
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from collage_dsl.cost import CostStore, StoreError
from collage_dsl.cost.records import Records
from collage_dsl.cost.table import CostTable, TableError
from tests.cases import slow
from tests.commands import assert_one_message, collage, said
from tests.models import small_convolution

NATIVE = Path(__file__).parent.parent / "specs" / "native.collage"


@pytest.mark.parametrize("command", ["check", "fmt", "test"])
def test_a_pipe_is_no_spec_file(tmp_path: Path, command: str) -> None:
    path = tmp_path / "a.collage"
    os.mkfifo(path)

    done = collage(command, path, timeout=60)

    assert done.code != 0
    assert f"cannot read {path}: it is a pipe" in done.out + done.err


@pytest.mark.parametrize("closed", [slow("<&-"), slow("2>&-"), "<&- 2>&-"])
def test_a_standard_stream_may_be_closed(closed: str) -> None:
    command = f"exec {sys.executable} -m collage_dsl.cli.main check {NATIVE} {closed}"

    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60)

    assert done.returncode == 0
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("tvm: {ops: {a: 1, a: 2}}", "the key `a` is there twice"),
        ("tvm: &a {ops: {x: 1}}\nonnx: *a", "aliases are not read"),
        ("a: &a {<<: [*a, *a]}", "aliases are not read"),
        ("[" * 5000, "it is nested too deeply"),
        ("tvm: {ops: {a: 2001-99-99}}", "it is not YAML: month must be in 1..12"),
        ("tvm: {ops: {a: 2001-01-01}}", "tvm.ops.a: "),
        ("tvm: {ops: {a: .nan}}", "tvm.ops.a: "),
        (f"tvm: {{ops: {{a: {'9' * 5000}}}}}", "a number is too long"),
        ("tvm: {ops: {[1]: 2}}", "at line 1, column 12 found unhashable key at line 1, column 13"),
        ("a" * (1 << 20) + "bc", "it has more than 1048576 bytes"),
    ],
)
def test_an_odd_table_is_refused(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "costs.yaml"
    path.write_text(text)

    with pytest.raises(TableError, match="cost table") as caught:
        CostTable.load(path)
    assert why in str(caught.value)
    assert str(path) in str(caught.value)
    assert "^" not in str(caught.value)


def test_a_pipe_is_no_model_and_no_table(tmp_path: Path) -> None:
    path = tmp_path / "costs.yaml"
    os.mkfifo(path)

    with pytest.raises(TableError, match="it is a pipe"):
        CostTable.load(path)


@pytest.mark.parametrize("database", [CostStore, Records])
def test_what_is_no_file_is_no_database(
    tmp_path: Path, database: type[CostStore | Records]
) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/zero")

    for path, kind in (("", "a folder"), ("pipe", "a pipe"), ("link", "a device or a socket")):
        with pytest.raises(StoreError, match=f"cannot open .*: it is {kind}"):
            database(tmp_path / path)


def test_a_command_that_cannot_read_a_table_says_so(tmp_path: Path) -> None:
    done = said("plan", "none.onnx", "-t", NATIVE, "--costs", tmp_path)

    assert_one_message(done, 2, "cannot read the cost table", "it is a folder")


@pytest.mark.parametrize("source", ["analytic", slow("recorded")])
def test_a_store_that_is_no_file_is_refused_where_it_is_only_read(
    tmp_path: Path, source: str
) -> None:
    model = tmp_path / "model.onnx"
    onnx.save(small_convolution(), model)

    done = said("plan", model, "-t", NATIVE, "--costs", source, "--store", tmp_path)

    assert_one_message(done, 2, f"cannot open the cost store {tmp_path}", "it is a folder")
