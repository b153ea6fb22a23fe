"""The example of `docs/partition.md` prints what the page says."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).parent.parent / "docs" / "partition.md").read_text("utf-8")


@pytest.mark.engine
def test_the_example_prints_what_the_page_says(tmp_path: Path) -> None:
    program, *_ = re.findall(r"```python\n(.*?)```", PAGE, flags=re.S)
    expected = re.findall(r"^print.*\n# (.*)$", program, flags=re.M)
    script = tmp_path / "example.py"
    script.write_text(program, "utf-8")

    done = subprocess.run([sys.executable, script], capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == expected
    assert expected
