"""A package that declares sources of costs as entry points, as if it were installed."""

from collections.abc import Mapping
from pathlib import Path


def package(folder: Path, module: str, text: str, points: Mapping[str, str]) -> Path:
    """Write the package to `folder`, which is to be on the path of Python."""
    described = folder / f"{module}-1.0.dist-info"
    described.mkdir(parents=True)
    (folder / f"{module}.py").write_text(text, "utf-8")
    (described / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    lines = "".join(f"{name} = {module}:{value}\n" for name, value in points.items())
    (described / "entry_points.txt").write_text(f"[collage_dsl.costs]\n{lines}", "utf-8")
    return folder
