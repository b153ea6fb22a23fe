"""Write the JSON Schemas of the commands' answers and of specs to `docs/schemas`."""

import json
from pathlib import Path

from collage_dsl.cli.documents import (
    BreakingDocument,
    CalibrationDocument,
    CodesDocument,
    ExampleDocument,
    ExplainDocument,
    OpsDocument,
    StoreDocument,
    TestsDocument,
)
from collage_dsl.language import forms
from collage_dsl.report.documents import (
    CandidatesDocument,
    CheckDocument,
    CompileDocument,
    CoverageDocument,
    DoctorDocument,
    Document,
    GraphDocument,
    PlanDocument,
    ReplayDocument,
    RunDocument,
)
from collage_dsl.report.tuning import RecordsDocument, TuneDocument
from collage_dsl.report.why import NearDocument, WhyDocument

FOLDER = Path(__file__).parent.parent / "docs" / "schemas"

COMMANDS: dict[str, type[Document]] = {
    "breaking": BreakingDocument,
    "calibrate": CalibrationDocument,
    "candidates": CandidatesDocument,
    "check": CheckDocument,
    "codes": CodesDocument,
    "compile": CompileDocument,
    "costs": StoreDocument,
    "coverage": CoverageDocument,
    "doctor": DoctorDocument,
    "example": ExampleDocument,
    "explain": ExplainDocument,
    "near": NearDocument,
    "ops": OpsDocument,
    "plan": PlanDocument,
    "records": RecordsDocument,
    "replay": ReplayDocument,
    "run": RunDocument,
    "show": GraphDocument,
    "test": TestsDocument,
    "tune": TuneDocument,
    "why": WhyDocument,
}
"""The document of each command. Those of `bench`, `demo` and `report` are that of `compile`."""


def schema(document: type[Document]) -> str:
    return json.dumps(document.model_json_schema(), indent=2) + "\n"


def spec_schema() -> str:
    """The schema of the JSON form of specs."""
    return json.dumps(forms.schema(), indent=2) + "\n"


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for command, document in COMMANDS.items():
        (FOLDER / f"{command}.json").write_text(schema(document), "utf-8")
    (FOLDER / "spec.json").write_text(spec_schema(), "utf-8")
