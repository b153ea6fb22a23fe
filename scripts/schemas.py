"""Write the JSON Schemas of the commands' answers to `docs/schemas`."""

import json
from pathlib import Path

from collage_dsl.report.documents import (
    CandidatesDocument,
    CheckDocument,
    CompileDocument,
    DoctorDocument,
    Document,
    PlanDocument,
    RunDocument,
)

FOLDER = Path(__file__).parent.parent / "docs" / "schemas"

COMMANDS: dict[str, type[Document]] = {
    "candidates": CandidatesDocument,
    "check": CheckDocument,
    "compile": CompileDocument,
    "doctor": DoctorDocument,
    "plan": PlanDocument,
    "run": RunDocument,
}
"""`bench` and `demo` answer as `compile` does."""


def schema(document: type[Document]) -> str:
    return json.dumps(document.model_json_schema(), indent=2) + "\n"


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for command, document in COMMANDS.items():
        (FOLDER / f"{command}.json").write_text(schema(document), "utf-8")
