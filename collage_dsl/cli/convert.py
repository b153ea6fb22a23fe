"""`collage convert`: write specs as JSON, YAML or canonical text."""

from pathlib import Path

from collage_dsl.cli.config import import_folders
from collage_dsl.cli.failure import CommandError
from collage_dsl.cli.output import write_utf8
from collage_dsl.engine.named import parts, spec_file, target_of
from collage_dsl.engine.spec_files import load
from collage_dsl.language import read, to_text
from collage_dsl.language.forms import FormError, Specs, from_json, from_yaml, to_json, to_yaml
from collage_dsl.language.write.formatter import formatted_text

_READ = {".json": from_json, ".yaml": from_yaml, ".yml": from_yaml}


def _formatted(specs: Specs) -> str:
    return formatted_text(to_text(specs))


_WRITE = {"json": to_json, "yaml": to_yaml, "collage": _formatted}


def convert_file(named: str, form: str, allow_extern: bool) -> None:
    """
    Write the specs of a file, or one of them, in another form. The suffix of the file tells its own
    form. Raises FormError if it has none: everything in it would be lost.
    """
    file, wanted = parts(named)
    if not file:
        raise CommandError(f"FILE '{named}' names no file: write FILE or FILE#NAME")
    specs = _specs(file, allow_extern)
    if not specs:
        raise FormError(f"{file}: it has no target, and only targets can be converted")
    if wanted:
        specs = {wanted: target_of(specs, wanted, file)}
    write_utf8(_WRITE[form](specs))


def _specs(file: str, allow_extern: bool) -> Specs:
    from_form = _READ.get(Path(file).suffix)
    if from_form is None:
        path = spec_file(file)
        return load(path, search=import_folders(path), allow_extern=allow_extern)
    try:
        return from_form(read(file).text, name=f"{file} as a spec file")
    except FormError as problem:
        raise FormError(f"{file}: {problem}") from None
