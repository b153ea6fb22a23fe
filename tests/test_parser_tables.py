"""The tables of the parser: made, and kept in the user's cache."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import lark
import pytest

from collage_dsl.language.syntax import grammar
from collage_dsl.resources import folder


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the tables are kept, in an empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache/collage_dsl/graph_text.tables.json"


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What tables are made anew for."""
    starts: list[str] = []
    make = grammar.make

    def noted(text: str, start: str) -> dict[str, Any]:
        starts.append(start)
        return make(text, start)

    monkeypatch.setattr(grammar, "make", noted)
    return starts


def parsed() -> lark.Tree[Any]:
    tree: lark.Tree[Any] = grammar.parser.__wrapped__("graph_text").parse("x: f32[4]; return x;")
    return tree


def test_tables_are_made_once(kept: Path, made: list[str]) -> None:
    assert parsed() == parsed()

    assert made == ["graph_text"]
    assert list(kept.parent.iterdir()) == [kept]


@pytest.mark.parametrize("change", ["the grammar", "the version of lark"])
def test_tables_of_something_else_are_not_used(
    kept: Path, made: list[str], monkeypatch: pytest.MonkeyPatch, change: str, tmp_path: Path
) -> None:
    parsed()
    if change == "the grammar":
        text = (folder("grammars") / "collage.lark").read_text("utf-8")
        (tmp_path / "collage.lark").write_text(f"{text}// changed\n", "utf-8")
        monkeypatch.setattr(grammar, "folder", lambda name: tmp_path)
    else:
        monkeypatch.setattr(lark, "__version__", "1.3.99")

    parsed()
    parsed()

    assert made == ["graph_text"] * 2


@pytest.mark.parametrize("content", ["", "[]", '{"made_from": 1}', "\udcff", '{"data": '])
def test_a_file_that_holds_no_tables_is_replaced(kept: Path, made: list[str], content: str) -> None:
    kept.parent.mkdir(parents=True)
    kept.write_text(content, "utf-8", errors="surrogateescape")

    parsed()
    parsed()

    assert made == ["graph_text"]
    assert "made_from" in json.loads(kept.read_text("utf-8"))


def test_tables_are_made_where_nothing_can_be_kept(
    made: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))

    parsed()
    parsed()

    assert made == ["graph_text"] * 2


def test_a_check_needs_nothing_that_only_other_commands_need() -> None:
    spec = folder("specs") / "onnxruntime.collage"
    program = f"""if True:
        import sys
        from collage_dsl.cli.main import main
        sys.argv = ["collage", "check", {str(spec)!r}]
        try:
            main()
        finally:
            heavy = {{"pydantic", "rich", "yaml", "numpy", "tvm", "onnx"}}
            print(sorted(heavy & set(sys.modules)))
        """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert done.stdout == "1 file checked, nothing found\n[]\n"
