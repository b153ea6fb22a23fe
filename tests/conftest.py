"""
What is tested is the package that is installed, not the sources beside the tests: the root of
the repository, where the tests' own modules are found, comes last, here and in subprocesses.
"""

import os
import sys
from pathlib import Path

import pytest
from hypothesis import settings

sys.path.append(str(Path(__file__).parent.parent))
os.environ["PYTHONSAFEPATH"] = "1"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--cases", type=int, help="cases of each property (tests/cases.py)")


def pytest_configure(config: pytest.Config) -> None:
    asked = config.getoption("--cases")
    if asked is not None:
        settings.register_profile("cases", max_examples=asked)
        settings.load_profile("cases")
