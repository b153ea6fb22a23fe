"""The specs that ship, and the example of the page on tests."""

import subprocess
import sys
from pathlib import Path

import pytest

from collage_dsl.engine.testing import run_tests
from collage_dsl.language.loading import check, load_contents, read
from collage_dsl.language.write.formatter import format_source
from collage_dsl.source import Source
from tests.needs_engine import engine_where

ROOT = Path(__file__).parent.parent
SPECS = sorted((ROOT / "specs").rglob("*.collage"))
TESTED = [
    pytest.param(path, marks=engine_where("pattern_table" in path.read_text("utf-8")))
    for path in SPECS
]
"""The specs; TVM answers for the checks of its pattern tables."""
PAGE = (ROOT / "docs" / "test.md").read_text("utf-8").split("```collage\n")[1].split("```")[0]


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_a_shipped_spec_is_in_order(path: Path) -> None:
    source = read(path)

    assert check(source) == ()
    assert format_source(source) == source.text


@pytest.mark.parametrize("path", TESTED, ids=lambda path: path.stem)
def test_the_tests_of_a_shipped_spec_pass(path: Path) -> None:
    for outcome in run_tests(load_contents(read(path))):
        assert outcome.passed, "\n\n".join(map(str, outcome.failures))


def test_the_example_of_the_page_on_tests_passes() -> None:
    assert check(Source("test.md", PAGE)) == ()
    outcomes = list(run_tests(load_contents(Source("test.md", PAGE))))
    assert [outcome.passed for outcome in outcomes] == [True, True]


def test_the_specs_are_checked_without_tvm() -> None:
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from collage_dsl.language import check, read\n"
        f"for path in {[str(path) for path in SPECS]!r}: assert not check(read(Path(path)))\n"
        "sys.exit('tvm was imported' if 'tvm' in sys.modules else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
