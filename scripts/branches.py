"""
Print how many branches of each package the tests have taken, from `coverage json`.

It fails if one of the named packages has less than the given percentage:

    python scripts/branches.py coverage.json 95 rules graph search
"""

import json
import sys
from pathlib import Path
from typing import Any


def branches(report: dict[str, Any], package: str) -> tuple[int, int]:
    """The numbers of taken branches and of all branches in the files of a package."""
    found = [
        each["summary"]
        for path, each in report["files"].items()
        if f"/collage_dsl/{package}/" in f"/{path}"
    ]
    return sum(each["covered_branches"] for each in found), sum(
        each["num_branches"] for each in found
    )


def main(path: str, least: str, *packages: str) -> int:
    report = json.loads(Path(path).read_text("utf-8"))
    failed = False
    for package in packages:
        taken, there = branches(report, package)
        failed |= 100 * taken < float(least) * there or not there
        print(f"{package}: {taken} of {there} branches, {100 * taken / max(there, 1):.1f} %")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
