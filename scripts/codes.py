"""Write the table of codes to `docs/codes.md`."""

from pathlib import Path

from collage_dsl.language.codes import CODES

PATH = Path(__file__).parent.parent / "docs" / "codes.md"

_HEAD = """\
# Codes

What `collage check` and `collage test` find. A code keeps its meaning for ever; `E` is an error,
`W` a warning. `collage explain CODE` shows its page, which has an example of what is wrong and one
of what is right.

| Code | |
|---|---|
"""


def table() -> str:
    pages = "../collage_dsl/language/explanations"
    return _HEAD + "".join(
        f"| [{code}]({pages}/{code}.md) | {title} |\n" for code, title in CODES.items()
    )


if __name__ == "__main__":
    PATH.write_text(table(), "utf-8")
