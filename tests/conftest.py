"""
What is tested is the package that is installed, not the sources beside the tests: the root of
the repository, where the tests' own modules are found, comes last, here and in subprocesses.
"""

import gc
import os
import signal
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import settings

sys.path.append(str(Path(__file__).parent.parent))
os.environ["PYTHONSAFEPATH"] = "1"
os.environ["ORT_DISABLE_TELEMETRY"] = "1"

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    # So it is in the background of a shell, and every command that a test interrupts inherits it.
    signal.signal(signal.SIGINT, signal.default_int_handler)

from tests.needs_engine import needs_engine


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update", action="store_true", help="write recorded findings anew")
    parser.addoption("--cases", type=int, help="cases of each property (tests/cases.py)")
    parser.addoption(
        "--language", action="store_true", help="only tests without TVM (tests/needs_engine.py)"
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    is_module = collection_path.suffix == ".py"
    return (config.getoption("--language") and is_module and needs_engine(collection_path)) or None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--language"):
        left_out = [item for item in items if item.get_closest_marker("engine")]
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=left_out)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Most of what is made here stays: garbage is looked for once in it, instead of 20 times."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def pytest_configure(config: pytest.Config) -> None:
    asked = config.getoption("--cases")
    if asked is not None:
        settings.register_profile("cases", max_examples=asked)
        settings.load_profile("cases")


@pytest.fixture
def small_loops_are_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests of kernels on several cores, which are too small to be shared otherwise."""
    monkeypatch.setattr("collage_dsl.backends.schedule.work.SHARED_FROM", 0.0)
