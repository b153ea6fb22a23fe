"""`collage breaking`: what a changed spec no longer matches, and what it newly matches."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from collage_dsl.cli.documents import BreakingDocument
from tests.commands import Done, said

PAGE = (Path(__file__).parent.parent / "docs" / "breaking.md").read_text("utf-8")

SPEC = """collage 1;
pattern p(x) { y = nn.relu(x); where rank(x) < 4 else "too many dimensions"; yield y; }
pattern q(x) { y = exp(x); yield y; }
rule both = union(dfpattern(p), dfpattern(q));
target t on llvm { rules both; }
test "relu and exp" {
  graph { x: f32[2, 2]; a = nn.relu(x); y = exp(a); return y; }
  expect matches(p) == 1;
}
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(old: str, new: str, *options: str) -> Done:
    """The answer about two texts."""
    Path("old.collage").write_text(old)
    Path("new.collage").write_text(new)
    return said("breaking", "old.collage", "new.collage", *options)


def found(old: str, new: str, *options: str) -> BreakingDocument:
    done = run(old, new, "--output-format", "json", *options)
    document = BreakingDocument.model_validate_json(done.out)
    assert (done.code == 1) == document.breaking
    return document


def test_the_page_shows_what_the_command_says() -> None:
    old, new = re.findall(r"```collage\n(.*?)```", PAGE, re.DOTALL)
    (shown,) = re.findall(r"\$ collage breaking old.collage new.collage\n(.*?)```", PAGE, re.DOTALL)

    for text in (old, new):
        Path("spec.collage").write_text(text)
        assert said("test", "spec.collage").out == "1 test passed\n"
        assert said("check", "spec.collage").out == "1 file checked, nothing found\n"
    assert run(old, new) == Done(1, shown, "")


def test_what_means_the_same_is_no_change() -> None:
    other = SPEC.replace("nn.relu(x);", "  nn.relu(x);  # a comment", 1).replace(
        "pattern q(x) { y = exp(x); yield y; }\n", ""
    )
    other += "pattern q(x) { y = exp(x); yield y; }\n"
    other = other.replace("# a comment where", "# a comment\n where")

    assert run(SPEC, other) == Done(0, "1 graph compared, nothing changed\n", "")


def test_a_lost_match_has_the_reason() -> None:
    document = found(SPEC, SPEC.replace("rank(x) < 4", "rank(x) < 2"))

    pattern, target = document.changes
    (lost,) = pattern.lost
    assert (pattern.kind, pattern.name, pattern.change) == ("pattern", "p", "changed")
    assert (lost.nodes, lost.test, lost.version) == (["a"], "relu and exp", "both")
    assert lost.reason == "too many dimensions"
    assert [each.nodes for each in target.lost] == [["a"]]
    assert (target.kind, target.gained, target.unknown) == ("target", [], [])


def test_a_gained_match_breaks_nothing() -> None:
    document = found(SPEC, SPEC.replace("y = exp(x)", "y = (exp | nn.relu)(x)"))

    assert not document.breaking
    assert [each.nodes for each in document.changes[0].gained] == [["a"]]


def test_a_change_that_no_graph_shows_is_named() -> None:
    done = run(SPEC, SPEC.replace("rank(x) < 4", "rank(x) < 3"))

    assert done.code == 0
    assert "new.collage: pattern `p`: changed, the same on every graph\n" in done.out


def test_without_a_graph_nothing_is_said_to_be_the_same() -> None:
    spec = SPEC.partition("test ")[0]
    changed = spec.replace("rank(x) < 4", "rank(x) < 3")

    done = run(spec, changed)

    assert done.code == 2
    assert "new.collage: pattern `p`: changed, compared on no graph\n" in done.out
    assert done.out.endswith(
        "no test has a graph to compare on: add one, as `collage example FILE#PATTERN` writes\n"
    )
    assert found(spec, changed).changes[0].unknown == ["no test has a graph"]
    assert run(spec, spec) == Done(0, "0 graphs compared, nothing changed\n", "")


@pytest.mark.parametrize("kind", ["pattern", "rule", "target"])
def test_what_is_removed_breaks_and_what_is_added_does_not(kind: str) -> None:
    name, line = {
        "pattern": ("r", "pattern r(x) { y = tanh(x); yield y; }\n"),
        "rule": ("r", "rule r = dfpattern(p);\n"),
        "target": ("u", "target u on llvm { rules dfpattern(q); }\n"),
    }[kind]

    for old, new, change in [(SPEC, SPEC + line, "added"), (SPEC + line, SPEC, "removed")]:
        document = found(old, new)
        assert [(c.kind, c.name, c.change) for c in document.changes] == [(kind, name, change)]
        assert document.breaking == (change == "removed")


def test_the_graphs_of_both_versions_count_once() -> None:
    added = 'test "again" {\n  graph { x: f32[2, 2]; a = nn.relu(x); y = exp(a); return y; }\n'
    another = 'test "tanh" { graph { x: f32[2]; y = tanh(x); return y; } '
    expect = "expect matches(q) >= 0; }\n"

    document = found(SPEC + another + expect, SPEC + added + expect)

    assert (document.graphs, document.changes) == (2, [])


def test_a_placement_of_another_target_changes_what_a_target_proposes() -> None:
    both = SPEC + "target u on llvm { rules dfpattern(q); }\n"

    document = found(both, both + "pin op(exp) to u;\n")

    lost = {change.name: [each.nodes for each in change.lost] for change in document.changes}
    assert lost["t"] == [["y"]]


def test_what_cannot_be_asked_is_said_and_ends_with_2() -> None:
    extern = SPEC.replace("where rank(x) < 4", "where good(x)").replace(
        "pattern p", 'extern predicate good(x) from "json:loads";\npattern p'
    )

    done = run(SPEC, extern)
    assert done.code == 2
    assert "unknown: test `relu and exp`: " in done.out
    assert "--allow-extern" in done.out


def test_a_version_with_errors_is_shown_with_its_name() -> None:
    done = run(SPEC.replace("nn.relu", "nn.relo"), SPEC)

    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("old.collage:2:20: error[E0201]")


def test_tests_of_models_are_left_out() -> None:
    model = 'test "model" { model "a.onnx"; expect matches(p) == 1; }\n'

    assert run(SPEC, SPEC + model).out.endswith("1 test with a model left out\n")


def test_only_the_first_matches_are_shown_to_people() -> None:
    calls = " ".join(f"a{at} = nn.relu(x);" for at in range(8))
    graph = f"graph {{ x: f32[2]; {calls} return a0, a1, a2, a3, a4, a5, a6, a7; }}"
    old = SPEC + f'test "many" {{ {graph} expect matches(p) == 8; }}\n'

    done = run(old, old.replace("rank(x) < 4", "rank(x) < 1"))
    assert "pattern `p`: 9 matches lost" in done.out
    assert "  lost: 4 more\n" in done.out


def test_folders_are_compared_file_by_file_on_the_graphs_of_all() -> None:
    for folder, limit in (("old", 4), ("new", 1)):
        Path(folder, "lib").mkdir(parents=True)
        lines = SPEC.splitlines(keepends=True)
        pattern = lines[1].replace("rank(x) < 4", f"rank(x) < {limit}")
        Path(folder, "lib", "p.collage").write_text(lines[0] + pattern)
        rest = "".join([lines[0], 'import "lib/p.collage" only (p);\n', *lines[2:]])
        Path(folder, "t.collage").write_text(rest)
    Path("old", "gone.collage").write_text("collage 1;\nlet a = one_of(exp);\nrule r = host();\n")

    done = said("breaking", "old/", "new", "--output-format", "json")

    changes = json.loads(done.out)["changes"]
    assert done.code == 1
    assert [(c["file"], c["name"], c["change"]) for c in changes] == [
        ("lib/p.collage", "p", "changed"),
        ("t.collage", "t", "changed"),
        ("gone.collage", "r", "removed"),
    ]
    assert changes[0]["lost"][0]["file"] == "t.collage"
    done = said("breaking", "old", "new/t.collage")
    assert done.err == "error: compare a file with a file, or a folder with a folder\n"


def git(*arguments: str) -> None:
    names = {
        f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }
    subprocess.run(
        ["git", *arguments], check=True, capture_output=True, env={**os.environ, **names}
    )


def test_a_version_may_be_that_of_a_git_revision(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("specs").mkdir()
    Path("common").mkdir()
    shared = "collage 1;\nlet act = one_of(nn.relu, exp);\n"
    Path("common", "shared.collage").write_text(shared)
    Path("pyproject.toml").write_text('[tool.collage]\npath = ["common"]\n')
    text = SPEC.replace("y = exp(x)", "y = act(x)").replace(
        "collage 1;\n", 'collage 1;\nimport "shared.collage" only (act);\n', 1
    )
    Path("specs", "a.collage").write_text(text)
    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "first")
    Path("common", "shared.collage").write_text(shared.replace("nn.relu, ", ""))

    done = said("breaking", "HEAD:specs", "specs")
    assert done.code == 1
    assert "a.collage: pattern `q`: 1 match lost\n" in done.out
    monkeypatch.chdir("specs")
    assert said("breaking", "HEAD:./a.collage", "a.collage").code == 1
    assert said("breaking", "HEAD:specs/a.collage", "HEAD:specs/a.collage").code == 0
    for name, message in [
        ("HEAD:b.collage", "HEAD:b.collage: there is no such file"),
        ("none:a.collage", "none:a.collage: git finds no revision `none`; "),
        ("--output=x:a.collage", "a revision does not begin with `-`"),
    ]:
        done = said("breaking", "--", name, "a.collage")
        assert done.code == 2
        assert message in done.err


def test_a_renamed_pattern_changes_none_that_calls_it() -> None:
    Path("act.collage").write_text(
        "collage 1;\npattern act(x) { y = tanh(x); yield y; }\n"
        "pattern other(x) { y = tanh(x); yield y; }\n"
        "pattern third(x) { y = exp(x); yield y; }\n"
    )
    text = SPEC.replace("collage 1;\n", 'collage 1;\nimport "act.collage" only (act);\n')
    text = text.replace("y = exp(x); yield", "e = exp(x); y = act(e); yield")

    renamed = text.replace("(act)", "(other)").replace("act(e)", "other(e)")
    assert run(text, renamed) == Done(0, "1 graph compared, nothing changed\n", "")

    changed = text.replace("(act)", "(third)").replace("act(e)", "third(e)")
    assert [each.name for each in found(text, changed).changes] == ["q", "t"]
