"""The schemas in the documentation are those of the code, and answers keep to them."""

import sys
from pathlib import Path

import pytest

from collage_dsl.report.documents import CheckDocument, DoctorDocument
from tests.commands import FIVE_MISTAKES, said

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

import schemas  # noqa: E402


@pytest.mark.parametrize("command", schemas.COMMANDS)
def test_the_schema_in_the_documentation_is_that_of_the_code(command: str) -> None:
    path = ROOT / "docs" / "schemas" / f"{command}.json"

    assert path.read_text("utf-8") == schemas.schema(schemas.COMMANDS[command])


def test_check_answers_by_its_schema(tmp_path: Path) -> None:
    (tmp_path / "five.collage").write_text(FIVE_MISTAKES)
    done = said("check", tmp_path / "five.collage", "--output-format", "json")

    assert len(CheckDocument.model_validate_json(done.out).diagnostics) == 5


def test_doctor_answers_by_its_schema() -> None:
    done = said("doctor", "--output-format", "json")

    assert DoctorDocument.model_validate_json(done.out).findings
