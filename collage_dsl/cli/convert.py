"""`collage convert`: write specs as JSON, YAML or canonical text."""

from pathlib import Path

from collage_dsl.cli.config import Configs
from collage_dsl.cli.output import write_utf8
from collage_dsl.engine.spec_files import load
from collage_dsl.language import read, to_text
from collage_dsl.language.forms import FormError, Specs, from_json, from_yaml, to_json, to_yaml
from collage_dsl.language.write.formatter import formatted_text

_READ = {".json": from_json, ".yaml": from_yaml, ".yml": from_yaml}


def _formatted(specs: Specs) -> str:
    return formatted_text(to_text(specs))


_WRITE = {"json": to_json, "yaml": to_yaml, "collage": _formatted}


def convert_file(file: Path, form: str, allow_extern: bool) -> None:
    """
    Write the specs of `file` in another form. The suffix of `file` tells its own form. Raises
    FormError if `file` has none: everything in it would be lost.
    """
    specs = _specs(file, allow_extern)
    if not specs:
        raise FormError(f"{file}: it has no target, and only targets can be converted")
    write_utf8(_WRITE[form](specs))


def _specs(file: Path, allow_extern: bool) -> Specs:
    from_form = _READ.get(file.suffix)
    if from_form is None:
        return load(file, search=Configs().of(file).path, allow_extern=allow_extern)
    try:
        return from_form(read(file).text)
    except FormError as problem:
        raise FormError(f"{file}: {problem}") from None
