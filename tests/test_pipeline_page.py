"""The examples of `docs/pipeline.md` run as they stand."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.caches import with_compiled_code

PAGE = (Path(__file__).parent.parent / "docs" / "pipeline.md").read_text("utf-8")


@pytest.mark.engine
def test_the_examples_run_each_half_in_a_process_of_its_own(tmp_path: Path) -> None:
    *examples, fresh = re.findall(r"```python\n(.*?)```", PAGE, flags=re.S)
    assert len(examples) == 5
    with_compiled_code(tmp_path)
    for name, program in {"first.py": "\n".join(examples), "fresh.py": fresh}.items():
        (tmp_path / name).write_text(program, "utf-8")
        done = subprocess.run(
            [sys.executable, name],
            cwd=tmp_path,
            env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
