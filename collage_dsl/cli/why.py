"""`collage why` and `collage near`: explain where a pattern matches or nearly matches."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from collage_dsl.cli.answer import answer
from collage_dsl.cli.config import import_folders
from collage_dsl.cli.failure import WRONG, CommandError, with_options
from collage_dsl.cli.graphs import load_graph
from collage_dsl.cli.stdin import NO_NAME, read_stdin
from collage_dsl.engine.named import parts, spec_file
from collage_dsl.engine.nodes import nodes_at
from collage_dsl.engine.spec_files import patterns
from collage_dsl.engine.why import near, why
from collage_dsl.language.messages.hints import did_you_mean
from collage_dsl.report.why import NearDocument, WhyDocument
from collage_dsl.rules import Pattern


def explain_match(
    named: str,
    model: Path,
    node: str,
    output_format: str,
    shapes: Sequence[str],
    allow_extern: bool,
) -> int:
    """Show why the pattern does not match at `node`, or how it does; return the exit code."""
    pattern = load_pattern(named, allow_extern=allow_extern)
    graph = load_graph(model, shapes)
    nodes_at(graph, node)
    document = why(pattern, graph, at=node, model=str(model), allow_extern=allow_extern)
    _answer(document, output_format)
    return 0 if document.matches else WRONG


def show_near(
    named: str,
    model: Path,
    top: int,
    output_format: str,
    shapes: Sequence[str],
    allow_extern: bool,
) -> None:
    """Show the `top` nodes of a model at which the pattern `named` nearly matches."""
    pattern = load_pattern(named, allow_extern=allow_extern)
    graph = load_graph(model, shapes)
    document = near(pattern, graph, top=top, model=str(model), allow_extern=allow_extern)
    _answer(document, output_format)


def _answer(document: WhyDocument | NearDocument, output_format: str) -> None:
    said = document.model_copy(update={"hint": with_options(document.hint)})
    answer(said, str(said), output_format)


def load_pattern(named: str, *, allow_extern: bool = False) -> Pattern:
    """
    The pattern `FILE#NAME`, or the only pattern of `FILE`. FILE may be the name of a shipped
    spec. Raises CommandError, and the errors of `load`.
    """
    file, wanted = parts(named)
    if not file:
        raise CommandError(f"PATTERN '{named}' names no file: write FILE#NAME")
    found = _patterns(file, allow_extern=allow_extern)
    if not wanted and len(found) == 1:
        return next(iter(found.values()))
    if wanted in found:
        return found[wanted]
    names = ", ".join(found)
    if not found:
        raise CommandError(f"{file} has no pattern")
    if not wanted:
        written = "-" if file == NO_NAME else file
        raise CommandError(f"{file} has several patterns; write {written}#NAME with one of {names}")
    hint = did_you_mean(wanted, found) or f"it has {names}"
    raise CommandError(f"{file} has no pattern `{wanted}`; {hint}")


def _patterns(file: str, *, allow_extern: bool) -> Mapping[str, Pattern]:
    """The patterns of a file, of a shipped spec, or of standard input."""
    if file == NO_NAME:
        source, folders = read_stdin(), import_folders(Path(NO_NAME))
        return patterns(
            text=source.text, name=source.name, search=folders, allow_extern=allow_extern
        )
    path = spec_file(file)
    return patterns(path, search=import_folders(path), allow_extern=allow_extern)
