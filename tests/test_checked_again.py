"""Checking a text after edits, with what was remembered of the texts before it."""

import random
from pathlib import Path

import pytest

from collage_dsl.language import check
from collage_dsl.language.reasoning.findings import examination
from collage_dsl.lsp.files import Files
from collage_dsl.lsp.problems import problems
from collage_dsl.source import Source
from tests.cases import sample

CHOICES = (
    ("x", "x: const", "x: [n, 16]", "x: [_, _, _, n]"),
    ("groups == 1", "groups in [1, 0]", "groups > 1, groups < 1", 'data_layout == "NHWC"'),
    ("add?(k, b)", "add(k, b)", "(add(k, b) | k)", "add?(k, 0)"),
    ("nn.relu?(s)", "nn.relu(s)", "argmax?(s)", "repeat[0..2] nn.relu(s)"),
    ("rank(x) == 4", "rank(x) == 2", "rank(k) in [4, 3]", "shape(y) == shape(k)"),
    ("dim(w, 0) % 16 == 0", "dim(w, 0) == 8", "dim(y, 1) == 8", "not has(b)"),
    ("dtype(x) in [f32, i8]", "dtype(y) == i8", "dtype(x) == dtype(y)", "dtype(b) == f16"),
    ("dim(x, 1) > 3", "dim(x, 1) < 3 or rank(x) == 1", "dim(x, 1) == dim(w, 1)"),
)
"""What may stand in the places of a pattern. Many of them exclude others."""


def text(chosen: list[str]) -> str:
    parameter, attribute, sum_, last, *conditions = chosen
    where = "".join(f"  where {condition};\n" for condition in conditions)
    return f"""\
collage 1;
pattern conv({parameter}, w: const, b?) {{
  k = nn.conv2d(x, w) [{attribute}];
  s = {sum_};
  y = {last};
{where}  yield y;
}}
pattern twice(x, w: const, b) {{
  y = conv(conv(x, w, b), w, b);
  yield y;
}}
target lib on llvm {{ rules union(dfpattern(conv), dfpattern(twice)); }}
"""


@pytest.mark.parametrize("seed", sample(3, range(5)))
def test_what_was_remembered_changes_no_finding(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    files, path = Files(), tmp_path / "edited.collage"
    chosen = [options[0] for options in CHOICES]
    for _ in range(30):
        at = chance.randrange(len(CHOICES))
        chosen[at] = chance.choice(CHOICES[at])
        edited = text(chosen)
        found = problems(files.open(path, edited), files)

        kept = dict(examination._CLEAN)
        examination._CLEAN.clear()
        assert found == check(Source(str(path), edited), folder=tmp_path)
        examination._CLEAN.update(kept)
