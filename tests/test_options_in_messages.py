"""A message names arguments to callers in Python, and options to users of commands."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click

import collage_dsl
from collage_dsl.cli.failure import OPTIONS, CommandError, explained
from collage_dsl.cli.main import app
from tests.commands import said

PACKAGE = Path(collage_dsl.__file__).parent


@cache
def texts() -> list[tuple[Path, str]]:
    """The texts in the code below the command line, with `{}` for what is filled in."""
    return [*_texts()]


def _texts() -> Iterator[tuple[Path, str]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        if "cli" in path.relative_to(PACKAGE).parts:
            continue
        tree = ast.parse(path.read_text("utf-8"))
        joined = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
        parts = {part for node in joined for part in node.values}
        for node in joined:
            said = (str(p.value) if isinstance(p, ast.Constant) else "{}" for p in node.values)
            yield path, "".join(said)
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in parts:
                yield path, node.value


def options() -> set[str]:
    """The long options of all commands."""
    found = set[str]()
    pending: list[click.Command] = [app]
    while pending:
        command = pending.pop()
        found.update(o for p in command.params for o in p.opts if o.startswith("--"))
        if isinstance(command, click.Group):
            pending.extend(command.commands.values())
    return found


def test_only_the_command_line_names_its_options() -> None:
    known = options()
    assert {"--shape", "--store", "--allow-extern"} <= known
    named = [
        (path.name, text)
        for path, text in texts()
        if (known - {"--version"}) & set(re.findall(r"--[a-z-]+", text))
        and "command line" not in text
        and "collage serve" not in text
    ]

    assert not named


def test_each_argument_that_a_message_names_has_an_option() -> None:
    named = {name for _, text in texts() for name in re.findall(r"the argument `(\w+)`", text)}

    assert named <= OPTIONS.keys()
    assert {option.partition(" ")[0] for option in OPTIONS.values()} <= options()


def test_a_command_says_its_option_in_place_of_the_argument() -> None:
    said = "give it with the argument `shapes` (`x=1,3`), or name the argument `store`"

    message = explained(CommandError(said)).message

    assert message == "error: give it with `--shape x=1,3`, or name `--store`"


def test_a_rule_that_stops_says_so_in_lines_with_the_option_that_allows_more(
    tmp_path: Path,
) -> None:
    rule = "combine_by_primitives(op_call_by_kind(), using: [join_anything], max_nodes: 4)"
    (tmp_path / "spec.collage").write_text(f"collage 1;\ntarget t on llvm {{ rules {rule}; }}\n")
    (tmp_path / "model.graph").write_text(
        "graph { x: f32[4]; a = exp(x); b = exp(a); c = exp(b); y = exp(c); return y; }\n"
    )
    spec, model = tmp_path / "spec.collage", tmp_path / "model.graph"

    done = said("candidates", model, "--target", spec, "--max-candidates", "1")

    first, second = done.err.splitlines()
    assert first.startswith("target `t`: warning[W0424]: `combine_by_primitives` stopped")
    assert second.startswith("help: write `max_nodes`")
    assert "`--max-candidates`" in second
