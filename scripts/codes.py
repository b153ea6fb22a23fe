"""Write the table of codes to `docs/codes.md`."""

from pathlib import Path

from collage_dsl.language.messages.codes import CODES

PATH = Path(__file__).parent.parent / "docs" / "codes.md"

_HEAD = """\
# Codes

The codes of the errors (`E`) and warnings (`W`) that `collage check` and `collage test` report. A
code never changes its meaning. `collage explain CODE` shows its page, with a wrong and a right
example.

| Code | |
|---|---|
"""


def table() -> str:
    pages = "../collage_dsl/language/messages/explanations"
    return _HEAD + "".join(
        f"| [{code}]({pages}/{code}.md) | {title} |\n" for code, title in CODES.items()
    )


if __name__ == "__main__":
    PATH.write_text(table(), "utf-8")
