"""`collage convert`: write specs as JSON, YAML or canonical text."""

from pathlib import Path

from collage_dsl.cli.config import import_folders
from collage_dsl.cli.failure import CommandError
from collage_dsl.cli.output import write_utf8
from collage_dsl.cli.stdin import NO_NAME, read_stdin
from collage_dsl.cli.targets import specs_on_stdin
from collage_dsl.engine.named import parts, spec_file, target_of
from collage_dsl.engine.spec_files import load
from collage_dsl.language import read, to_text
from collage_dsl.language.forms import FormError, Specs, from_json, from_yaml, to_json, to_yaml
from collage_dsl.language.write.formatter import formatted_text

_READ = {".json": from_json, ".yaml": from_yaml, ".yml": from_yaml}


def _formatted(specs: Specs) -> str:
    return formatted_text(to_text(specs))


_WRITE = {"json": to_json, "yaml": to_yaml, "collage": _formatted}


def convert_file(named: str, form: str, stdin_name: str, allow_extern: bool) -> None:
    """
    Write the specs of a file, or one of them, in another form. The suffix of the file tells its own
    form, and that of `stdin_name` the form of standard input. Raises FormError if it has no target:
    everything in it would be lost.
    """
    file, wanted = parts(named)
    if not file:
        raise CommandError(f"FILE '{named}' names no file: write FILE or FILE#NAME")
    is_stdin = file == NO_NAME
    if stdin_name != NO_NAME and not is_stdin:
        raise CommandError("--stdin-filename names standard input: give `-` as FILE")
    file = stdin_name if is_stdin else file
    specs = _specs(file, allow_extern, is_stdin=is_stdin)
    if not specs:
        raise FormError(f"{file}: it has no target, and only targets can be converted")
    if wanted:
        specs = {wanted: target_of(specs, wanted, file)}
    write_utf8(_WRITE[form](specs))


def _specs(file: str, allow_extern: bool, *, is_stdin: bool) -> Specs:
    from_form = _READ.get(Path(file).suffix)
    if from_form is None and is_stdin:
        return specs_on_stdin(file, allow_extern=allow_extern)
    if from_form is None:
        path = spec_file(file)
        return load(path, search=import_folders(path), allow_extern=allow_extern)
    source = read_stdin(file) if is_stdin else read(file)
    try:
        return from_form(source.text, name=f"{file} as a spec file")
    except FormError as problem:
        raise FormError(f"{file}: {problem}") from None
