"""The tables of the parser: made, kept, and run as lark itself would."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from lark import Lark
from lark.exceptions import UnexpectedInput

import collage_dsl
from collage_dsl.language.syntax import grammar, table_maker
from collage_dsl.language.syntax.lalr import END, Machine
from collage_dsl.language.syntax.nodes import Token, Tree
from collage_dsl.resources import folder
from tests.cases import cases
from tests.test_language_fuzz import GRAPH, SPEC, cuts, mutants

ROOT = Path(__file__).parent.parent
SPECS = sorted(path.read_text("utf-8") for path in folder("specs").rglob("*.collage"))


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package's folder of grammars, without tables, and an empty cache."""
    text = (folder("grammars") / "collage.lark").read_text("utf-8")
    (tmp_path / "collage.lark").write_text(text, "utf-8")
    monkeypatch.setattr(grammar, "folder", lambda name: tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What tables are made anew for."""
    starts: list[str] = []
    make = grammar.make

    def noted(start: str) -> dict[str, Any]:
        starts.append(start)
        return make(start)

    monkeypatch.setattr(grammar, "make", noted)
    return starts


def tables() -> Any:
    return grammar.tables.__wrapped__("graph_text")


def keep(package: Path) -> Path:
    path = package / "graph_text.tables.json"
    path.write_text(json.dumps(table_maker.kept(package / "collage.lark", "graph_text")), "utf-8")
    return path


def test_tables_that_the_package_carries_are_used(package: Path, made: list[str]) -> None:
    keep(package)

    assert tables().spellings["SEMICOLON"] == ";"
    assert made == []
    assert not (package / "cache").exists()


def test_tables_are_made_once_where_the_package_carries_none(
    package: Path, made: list[str]
) -> None:
    tables()
    tables()

    assert made == ["graph_text"]
    assert [path.name for path in (package / "cache/collage_dsl").iterdir()] == [
        "graph_text.tables.json"
    ]


@pytest.mark.parametrize("change", ["the grammar", "what makes tables"])
def test_tables_of_something_else_are_not_used(package: Path, made: list[str], change: str) -> None:
    path = keep(package)
    if change == "the grammar":
        with (package / "collage.lark").open("a") as file:
            file.write("// changed\n")
    else:
        data = json.loads(path.read_text())
        data["made_from"][1] += "# changed\n"
        path.write_text(json.dumps(data))

    tables()

    assert made == ["graph_text"]


@pytest.mark.parametrize("content", ["", "[]", '{"made_from": 1}', "\udcff", '{"states": '])
def test_a_file_that_holds_no_tables_is_not_used(
    package: Path, made: list[str], content: str
) -> None:
    path = package / "graph_text.tables.json"
    path.write_text(content, "utf-8", errors="surrogateescape")

    tables()

    assert made == ["graph_text"]


def test_tables_are_made_where_nothing_can_be_kept(
    package: Path, made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (package / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(package / "file"))

    tables()
    tables()

    assert made == ["graph_text"] * 2


def test_an_installed_package_carries_tables_and_a_checkout_none() -> None:
    is_checkout = Path(collage_dsl.__file__).parent.parent == ROOT
    for start in ("file", "graph_text"):
        path = folder("grammars") / f"{start}.tables.json"
        assert path.exists() != is_checkout
        if not is_checkout:
            kept = json.loads(path.read_text("utf-8"))
            assert kept["made_from"] == table_maker.made_from(folder("grammars") / "collage.lark")


def test_the_same_grammar_gives_the_same_tables() -> None:
    program = "from collage_dsl.language.syntax.grammar import make; print(make('file'))"
    found = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }

    assert len(found) == 1


def test_a_check_needs_neither_lark_nor_what_only_other_commands_need() -> None:
    spec = folder("specs") / "onnxruntime.collage"
    program = f"""if True:
        import sys
        from collage_dsl.cli.main import main
        sys.argv = ["collage", "check", {str(spec)!r}]
        try:
            main()
        finally:
            heavy = {{"lark", "pydantic", "rich", "yaml", "numpy", "tvm", "onnx", "tempfile"}}
            print(sorted(heavy & set(sys.modules)))
        """
    grammar.tables("file")  # which a checkout has to make
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert done.stdout == "1 file checked, nothing found\n[]\n"


# The machine does what lark does.


def by_lark(start: str) -> Lark:
    return Lark(
        (folder("grammars") / "collage.lark").read_text("utf-8"),
        parser="lalr",
        lexer="contextual",
        start=start,
        propagate_positions=True,
        maybe_placeholders=True,
    )


LARKS = {start: by_lark(start) for start in ("file", "graph_text")}


def plain_of_lark(node: Any) -> Any:
    if node is None or not hasattr(node, "children"):
        return node and (node.type, str(node), node.start_pos)
    meta = node.meta
    span = (meta.start_pos, meta.end_pos) if not meta.empty else None
    return (str(node.data), span, [plain_of_lark(child) for child in node.children])


def plain(node: Any) -> Any:
    match node:
        case Token():
            return (node.type, str(node), node.start_pos)
        case Tree():
            span = (node.start_pos, node.end_pos) if node.start_pos < node.end_pos else None
            return (node.data, span, [plain(child) for child in node.children])
    return node


def run(start: str, text: str) -> Any:
    """The tree; or where the machine stops, and what could stand there."""
    machine = Machine(grammar.tables(start), text)
    while True:
        kind, begin, end = machine.scan()
        if kind == END:
            tree = machine.finish()
            return plain(tree) if tree else ("end", machine.accepted())
        if not kind or not machine.feed(kind, begin, end, text[begin:end]):
            return begin, machine.accepted()


def run_lark(start: str, text: str) -> Any:
    interactive = LARKS[start].parse_interactive(text, start=start)
    try:
        for token in interactive.lexer_thread.lex(interactive.parser_state):
            interactive.feed_token(token)
    except UnexpectedInput as problem:
        return problem.pos_in_stream, frozenset(interactive.accepts())
    try:
        return plain_of_lark(interactive.feed_eof())
    except UnexpectedInput:
        return "end", frozenset(interactive.accepts())


@pytest.mark.parametrize("text", [*SPECS, SPEC, "", "collage 1;", "# nothing"])
def test_a_spec_has_the_tree_that_lark_gives_it(text: str) -> None:
    assert run("file", text) == run_lark("file", text)


@cases(100)
@given(mutants(SPEC) | cuts(SPEC))
def test_any_text_has_the_tree_that_lark_gives_it(text: str) -> None:
    assert run("file", text) == run_lark("file", text)


@cases(100)
@given(mutants(GRAPH) | cuts(GRAPH))
def test_any_graph_has_the_tree_that_lark_gives_it(text: str) -> None:
    assert run("graph_text", text) == run_lark("graph_text", text)
