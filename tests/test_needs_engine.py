"""Which tests `pytest --language` runs."""

from pathlib import Path

import pytest

from tests.needs_engine import engine_where, needs_engine

HERE = Path(__file__).parent


@pytest.mark.parametrize(
    ("file", "because"),
    [
        ("test_cli.py", "it imports numpy"),
        ("test_pruning.py", "it imports a module of the tests that imports numpy"),
        ("test_targets.py", "it imports a module of the package that imports tvm"),
        ("test_pictures.py", "it imports a script that imports onnx"),
    ],
)
def test_a_file_needs_the_engine_where_importing_it_does(file: str, because: str) -> None:
    assert needs_engine(HERE / file), because


@pytest.mark.parametrize("file", ["test_fmt.py", "test_language_documents.py", "test_search.py"])
def test_a_file_about_the_language_needs_no_engine(file: str) -> None:
    assert not needs_engine(HERE / file)


def test_what_a_function_imports_when_it_is_called_does_not_count(tmp_path: Path) -> None:
    file = tmp_path / "test_it.py"
    file.write_text("import json\n\ndef test_it():\n    import tvm\n")

    assert not needs_engine(file)


def test_a_case_is_marked_where_it_needs_the_engine() -> None:
    assert [mark.name for mark in engine_where(True)] == ["engine"]
    assert engine_where(False) == []
