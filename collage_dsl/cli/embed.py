"""`collage embed` and `collage extract`: a spec into a TVM target as JSON, and out of it."""

import json
from collections.abc import Sequence
from pathlib import Path

from collage_dsl.cli.failure import WRONG, CommandError
from collage_dsl.cli.output import complain, write, write_utf8
from collage_dsl.cli.stdin import NO_NAME
from collage_dsl.cli.targets import load_targets
from collage_dsl.language import read, to_text
from collage_dsl.language.write.formatter import formatted_text
from collage_dsl.printable import json_text
from collage_dsl.rules import FusionSpec
from collage_dsl.targets.attach import TargetError, embedded, extract_all


def embed_spec(named: str, allow_extern: bool) -> None:
    """Print the TVM target of the spec `named`, which must name exactly one."""
    specs = load_targets([named], allow_extern=allow_extern)
    if len(specs) != 1:
        names = ", ".join(spec.name for spec in specs)
        written = "-" if named == NO_NAME else named
        raise CommandError(f"{named} has several targets: write {written}#NAME, one of {names}")
    write(json_text(embedded(specs[0])))


def extract_spec(file: Path) -> int:
    """Print the text of the specs inside the target in `file`; return the exit code."""
    try:
        options = json.loads(read(file).text)
    except (ValueError, RecursionError) as problem:
        raise TargetError(f"{file} is not JSON: {problem}") from None
    if not isinstance(options, dict):
        raise TargetError(f"{file} is no target: that is an object with a `kind`")
    try:
        specs = extract_all(options)
    except TargetError as problem:
        raise TargetError(f"{file}: {problem}") from None
    if not specs:
        complain(f"the target in {file} carries no fusion spec")
        return WRONG
    write_utf8(formatted_text(_text(specs, file)))
    return 0


def _text(specs: Sequence[FusionSpec], file: Path) -> str:
    """The text of a spec file with all `specs`. Raises `TargetError` if no file can have them."""
    names = [spec.name for spec in specs]
    try:
        if twice := next((name for name in names if names.count(name) > 1), ""):
            raise ValueError(f"two specs are named `{twice}`")
        return to_text(dict(zip(names, specs, strict=True)))
    except ValueError as problem:
        said = f"{file}: one file cannot have all {len(specs)} specs of the target: {problem}"
        raise TargetError(f"{said}; in Python, `collage.extract_all` gives each of them") from None
