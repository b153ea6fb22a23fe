"""The distributions of this repository, as its users get them."""

import subprocess
import sys
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).parent.parent


def built(kind: Literal["wheel", "sdist"], folder: Path) -> Path:
    """The file of the distribution, built into `folder`, which is empty."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(folder)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    (path,) = folder.iterdir()
    return path
