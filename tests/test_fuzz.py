"""
No random input is called a defect of ours, crashes, hangs, or takes all memory, and no valid model
gives something else than onnxruntime.

The cases are those of tests/fuzz. A case may take 10 s of CPU time and 1 GiB of memory. A failure
names its campaign, its seed, and the folder with its files: `python -m tests.fuzz FOLDER
CAMPAIGN:SEED:END`, where END is one more than SEED, tries it again. `make fuzz` tries many more.
"""

from pathlib import Path

import pytest

from tests.fuzz.campaign import Campaign, failures


def none_fails(campaigns: list[Campaign], folder: Path) -> None:
    found = list(failures(campaigns, folder))
    assert not found, "\n\n".join(map(str, found))


def test_no_random_input_is_a_defect(tmp_path: Path) -> None:
    counts = {"graphs": 12, "specs": 15, "models": 15, "builds": 3, "tables": 8, "folders": 4}
    counts |= {"editor": 1, "values": 4}

    none_fails([Campaign(name, count) for name, count in counts.items()], tmp_path)


@pytest.mark.slow
@pytest.mark.fuzz
@pytest.mark.parametrize(
    ("campaign", "count"),
    [
        ("specs", 20_000),
        ("models", 5_000),
        ("builds", 300),
        ("tables", 500),
        ("folders", 500),
        ("editor", 100),
        ("values", 1_000),
        ("graphs", 3_000),
    ],
)
def test_no_random_input_of_many_is_a_defect(campaign: str, count: int, tmp_path: Path) -> None:
    none_fails([Campaign(campaign, count)], tmp_path)
