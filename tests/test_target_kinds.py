"""The table of target kinds that ships: made from TVM."""

import subprocess
import sys
from pathlib import Path

import pytest

from collage_dsl.graph.target_kinds import target_kinds

SCRIPT = Path(__file__).parents[1] / "scripts" / "target_kinds.py"


@pytest.mark.engine
def test_the_table_is_what_the_script_makes_of_the_installed_tvm() -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--check"], capture_output=True, text=True, timeout=120
    )

    assert done.returncode == 0, done.stderr


def test_options_have_types() -> None:
    assert target_kinds()["llvm"]["num-cores"] == "int"
    assert target_kinds()["llvm"]["mcpu"] == "str"
    assert target_kinds()["llvm"]["mattr"] == "list"
    assert target_kinds()["cuda"]["libs"] == "list"
    assert "devices" not in target_kinds()["composite"], "targets, which a rule file cannot give"
