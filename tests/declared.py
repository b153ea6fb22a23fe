"""A package that declares entry points, as if it were installed."""

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest


def declare(
    patch: pytest.MonkeyPatch,
    folder: Path,
    text: str,
    points: Mapping[str, str],
    group: str = "costs",
) -> None:
    """
    Write the package `pricing`, of one module, to `folder`, and put that on the path of Python.
    `points` are the functions of the module by the names under which they are declared.
    """
    described = folder / "pricing-1.0.dist-info"
    described.mkdir(parents=True)
    (folder / "pricing.py").write_text(text, "utf-8")
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: pricing\nVersion: 1.0\n")
    lines = "".join(f"{name} = pricing:{value}\n" for name, value in points.items())
    (described / "entry_points.txt").write_text(f"[collage_dsl.{group}]\n{lines}", "utf-8")
    patch.syspath_prepend(folder)
    patch.delitem(sys.modules, "pricing", raising=False)  # that of an earlier test
