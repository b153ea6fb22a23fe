"""`collage explain`: show what the code of a diagnostic means."""

from collage_dsl.cli.failure import CommandError
from collage_dsl.cli.output import show, write
from collage_dsl.language.messages.codes import CODES
from collage_dsl.language.messages.explanations import explanation
from collage_dsl.language.messages.hints import did_you_mean
from collage_dsl.printable import json_text


def explain_code(code: str | None, output_format: str) -> None:
    """Show the page of `code`; without a code, the titles of all codes."""
    if code is None:
        _list_codes(output_format)
        return
    known = code.upper()
    if known not in CODES:
        raise CommandError(f"there is no code `{code}`; {_hint(known)}")
    found = explanation(known)
    if output_format == "json":
        write(json_text({"code": found.code, "title": found.title, "page": found.page}))
    else:
        show(found.page)


def _hint(wanted: str) -> str:
    """The codes that begin with `wanted`, as `--select` means them, or a similar one."""
    begun = [code for code in CODES if wanted and code.startswith(wanted)]
    if begun:
        return f"with this beginning: {', '.join(begun)}"
    return did_you_mean(wanted, CODES) or "`collage explain` lists all codes"


def _list_codes(output_format: str) -> None:
    if output_format == "json":
        write(json_text({"codes": dict(CODES)}))
    else:
        show("".join(f"{code}  {title}\n" for code, title in CODES.items()))
