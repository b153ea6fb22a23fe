"""Warnings of ours on stderr."""

from pathlib import Path

import pytest

from tests.commands import said

SPEC = """collage 1;
target t on llvm {
  rules combine_by_primitives(op_call_by_kind(), using: [join_anything]);
  limits { max_candidates 1; }
}
"""
GRAPH = "x: f32[4]; a = nn.relu(x); b = tanh(a); c = exp(b); return c;\n"


def test_a_warning_of_several_lines_is_shown_in_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.graph").write_text(GRAPH)
    Path("s.collage").write_text(SPEC)

    lines = said("candidates", "a.graph", "-t", "s.collage").err.splitlines()

    assert [line.partition(":")[0] for line in lines] == ["target `t`", "help"]
