"""A rename changes each use once, and is refused where a name would mean something else."""

from pathlib import Path

import pytest

from collage_dsl.lsp.hover import hover
from collage_dsl.lsp.places import references
from collage_dsl.lsp.rename import RenameError, rename
from tests.lsp.marked import marked, opened

SAME_NAMES = """\
collage 1;
pattern t(x) { y = exp(x); yield y; }
target t on llvm { rules dfpattern(t); }
test "t" {
  graph { t: f32[4]; y = exp(t); return y; }
  costs { t { "*": 1ms; } }
  expect target_of(y) == t and kernels(t) == 1 and candidates(union(dfpattern(t))) == 1;
}
"""


def renamed(folder: Path, text: str, new: str, **others: str) -> dict[str, str]:
    """The texts of the files that change when the name at `¦` in a.collage becomes `new`."""
    document, offset = marked(text)
    files, documents = opened(folder, a=document.text, **others)
    edits = rename(documents["a"], offset, new, files)
    found: dict[str, str] = {}
    for edit in sorted(edits, key=lambda edit: -edit.span.start):
        name = edit.document.path.stem
        before = found.get(name, edit.document.text)
        found[name] = before[: edit.span.start] + edit.text + before[edit.span.end :]
    return found


def test_a_name_that_comes_by_several_imports_is_changed_once(tmp_path: Path) -> None:
    imports = 'import "b.collage" as b;\nimport "b.collage" only (q);\nimport "./b.collage" as c;\n'
    text = f"collage 1;\n{imports}pattern r(x) {{ y = q(b.q(c.¦q(x))); yield y; }}\n"
    home = "collage 1;\npattern q(x) { y = exp(x); yield y; }\n"

    found = renamed(tmp_path, text, "new", b=home)

    imports = imports.replace("only (q)", "only (new)")
    assert found == {
        "a": f"collage 1;\n{imports}pattern r(x) {{ y = new(b.new(c.new(x))); yield y; }}\n",
        "b": home.replace("q(x)", "new(x)"),
    }


def test_the_answer_of_target_of_is_a_target_also_where_a_node_has_its_name(tmp_path: Path) -> None:
    target = renamed(tmp_path, SAME_NAMES.replace("target t", "target ¦t"), "new")["a"]
    pattern = renamed(tmp_path, SAME_NAMES.replace("pattern t", "pattern ¦t"), "new")["a"]
    node = renamed(tmp_path, SAME_NAMES.replace("t: f32", "¦t: f32"), "new")["a"]

    assert "target_of(y) == new and kernels(new) == 1 and candidates(union(dfpattern(t)))" in target
    assert "target_of(y) == t and kernels(t) == 1 and candidates(union(dfpattern(new)))" in pattern
    assert "graph { new: f32[4]; y = exp(new); return y; }" in node
    assert node.partition("return y")[2] == SAME_NAMES.partition("return y")[2]


def test_a_node_is_a_node_of_the_test_whatever_else_has_the_name_of_the_test(
    tmp_path: Path,
) -> None:
    files, documents = opened(tmp_path, a=SAME_NAMES)
    found = hover(documents["a"], SAME_NAMES.index("t: f32"), files)
    assert found is not None
    assert "A node of test “t”." in found.text

    rule = 'collage 1;\nrule r = op_call_by_kind();\ntest "r" { graph { ¦x: f32[4]; return x; } }\n'
    assert "{ r: f32[4]; return r; }" in renamed(tmp_path, rule, "r")["a"]


@pytest.mark.parametrize(
    ("text", "new"),
    [
        ("pattern p(x: [¦n], w) { y = nn.conv2d(x, w) [groups == n]; yield y; }", "groups"),
        ("let ¦act = one_of(exp); pattern p(x) { y = reduce(act(x)); yield y; }", "reduce"),
        ("rule ¦some = op_call_by_kind(); rule all = union(some, some);", "union"),
        ("pattern p(¦x) { y = add(x, z); yield y; }", "z"),
        ('extern predicate ¦f(x) from "a:b"; pattern p(x) { y = exp(x); where f(x); }', "rank"),
    ],
)
def test_a_rename_that_would_change_what_another_name_stands_for_is_refused(
    tmp_path: Path, text: str, new: str
) -> None:
    with pytest.raises(RenameError, match=f"`{new}` would mean something else here: a.collage"):
        renamed(tmp_path, f"collage 1;\n{text}", new)


def test_an_open_file_that_was_never_saved_is_imported(tmp_path: Path) -> None:
    home = "collage 1;\npattern q(x) { y = exp(x); yield y; }\n"
    text = 'collage 1;\nimport "b.collage" only (q);\npattern r(x) { y = ¦q(x); yield y; }\n'
    document, offset = marked(text)
    files, documents = opened(tmp_path, a=document.text, b=home)
    (tmp_path / "b.collage").unlink()

    places = references(documents["a"], offset, files)

    assert [place[0].path.name for place in places] == ["b.collage", "a.collage", "a.collage"]


def test_what_is_installed_in_the_workspace_is_neither_listed_nor_changed(tmp_path: Path) -> None:
    installed = tmp_path / ".venv" / "specs"
    installed.mkdir(parents=True)
    home = "collage 1;\npattern q(x) { y = exp(x); yield y; }\n"
    (installed / "b.collage").write_text(home, "utf-8")
    text = 'collage 1;\nimport ".venv/specs/b.collage" only (q);\nlet s = one_of(exp);\n'
    files, documents = opened(tmp_path, a=text)

    assert list(files.below((tmp_path,))) == [documents["a"]]
    with pytest.raises(RenameError, match="is not in the workspace"):
        rename(documents["a"], text.index("q)"), "new", files)
