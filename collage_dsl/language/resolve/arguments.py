"""Check the arguments of a function of the language: `f(value, name: value)`."""

from collections.abc import Mapping, Sequence

from collage_dsl.diagnostics import Note
from collage_dsl.language.messages.findings import Findings, count, listed
from collage_dsl.language.messages.hints import did_you_mean, write
from collage_dsl.language.syntax import ast
from collage_dsl.source import Span


def bind(
    written: ast.Application,
    findings: Findings,
    takes: tuple[int, int | None],
    keywords: tuple[str, ...] = (),
    example: str = "",
) -> tuple[tuple[ast.Expression, ...], Mapping[str, ast.Expression]] | None:
    """
    The arguments without a name and those with a name.

    None after reporting too few or too many of them (`takes` is the least and the most) or an
    unknown name. `example` is a right call, for the hint.
    """
    function = written.function.text
    errors = findings.errors
    plain = tuple(a.value for a in written.arguments if a.name is None)
    named = named_arguments(written.arguments, findings)
    for name in (a.name for a in written.arguments if a.name is not None):
        if name.text not in keywords:
            hint: str = did_you_mean(name.text, keywords)
            if not hint and keywords:
                hint = f"it takes {listed(keywords, 'and')}"
            elif not hint:
                hint = "its arguments have no names: write the value alone"
            message = f"`{function}` has no argument named `{name.text}`"
            findings.error("E0402", name.span, message, hint)
    if findings.errors > errors and not keywords:
        return None
    least, most = takes
    if len(plain) < least or (most is not None and len(plain) > most):
        if least == most:
            wanted = count(least, "argument")
        elif most is None:
            wanted = f"at least {count(least, 'argument')}"
        else:
            wanted = f"{least} to {most} arguments"
        named_too = " without a name" if keywords else ""
        message = f"`{function}` takes {wanted}{named_too}, not {len(plain)}"
        compared = _compared(plain, keywords)
        if compared is None:
            unnamed = plain[most:] if most is not None and "at" in keywords else ()
            hint = f"write `{', '.join(map(_of_match, unnamed))}`" if unnamed else ""
            hint = hint or _without_name(function, plain, most, keywords)
            hint = hint or (f"write `{example}`" if example else "")
            findings.error("E0403", written.span, message, hint)
        else:
            name, value = compared
            hint = write(f"{name.text}: {value.span.text}")
            place = Span(name.span.source, name.span.start, value.span.end)
            findings.error("E0403", written.span, message, hint, place=place)
    return None if findings.errors > errors else (plain, named)


def _without_name(
    function: str, plain: Sequence[ast.Expression], most: int | None, keywords: Sequence[str]
) -> str:
    """What to write where there are more arguments without a name than `most`; or empty."""
    if most is None or len(plain) <= most:
        return ""
    if function == "dfpattern":
        each = ", ".join(f"dfpattern({argument.span.text})" for argument in plain)
        return f"write `union({each})`"
    extra = plain[most]
    match extra:
        case ast.Application():
            return "join rules with `union(a, b)`"
        case ast.Name("tvm_default") | ast.List() if "using" in keywords:
            return f"write `using: {extra.span.text}`"
        case ast.List() if "ops" in keywords:
            return f"write `ops: {extra.span.text}`"
        case ast.Name() if "ops" in keywords:
            return f"write `ops: [{extra.span.text}]`"
        case ast.Literal(int()) if "max" in keywords:
            return f"write `max: {extra.span.text}`"
    return ""


def _of_match(argument: ast.Expression) -> str:
    """`at: y` for the name of a node, `nodes: 3` for a number."""
    is_number = isinstance(argument, ast.Literal) and not isinstance(argument.value, str)
    return f"{'nodes' if is_number else 'at'}: {argument.span.text}"


def _compared(
    plain: tuple[ast.Expression, ...], keywords: tuple[str, ...]
) -> tuple[ast.Name, ast.Expression] | None:
    """The name and the value of the first `name == value` that is meant as `name: value`."""
    for argument in plain:
        match argument:
            case ast.Operation("==", ast.Name() as name, value) if name.text in keywords:
                return name, value
    return None


def named_arguments(
    written: tuple[ast.Argument, ...], findings: Findings
) -> Mapping[str, ast.Expression]:
    """The arguments with a name. A name that is given twice is reported."""
    found: dict[str, ast.Expression] = {}
    first: dict[str, Span] = {}
    for argument in written:
        if argument.name is None:
            continue
        name = argument.name.text
        if name in found:
            note = Note("given here first", first[name])
            message = f"`{name}` is given twice"
            findings.error("E0403", argument.name.span, message, "remove one of them", (note,))
        else:
            found[name], first[name] = argument.value, argument.name.span
    return found


def string(written: ast.Expression, what: str, findings: Findings) -> str | None:
    """The text of a non-empty string; None after reporting anything else."""
    match written:
        case ast.Literal(str() as text) if text:
            return text
        case ast.Literal(str()):
            findings.error("E0404", written.span, f"{what} must not be empty")
            return None
    hint = write(f'"{written.text}"') if isinstance(written, ast.Name) else ""
    findings.error("E0404", written.span, f"{what} must be a string in double quotes", hint)
    return None


_UNBOUNDED = ("all", "inf", "infinity", "unbounded", "unlimited")
"""Other words for that there is no bound."""


def whole_number(
    written: ast.Expression,
    what: str,
    findings: Findings,
    least: int = 1,
    most: int | None = None,
    *,
    otherwise: str = "",
) -> int | None:
    """
    A whole number within the bounds, both included; None after reporting anything else. A word
    that is allowed in its place is `otherwise`.
    """
    match written:
        case ast.Literal(bool()):
            pass
        case ast.Literal(int() as value) if value >= least and (most is None or value <= most):
            return value
    bounds = f"of at least {least}" if most is None else f"from {least} to {most}"
    hint = ""
    if isinstance(written, ast.Literal) and isinstance(written.value, int | float):
        hint = write(str(least if most is None or written.value < least else most))
    message = f"{what} must be a whole number {bounds}"
    if otherwise:
        message += f", or `{otherwise}`"
        if isinstance(written, ast.Name) and written.text in _UNBOUNDED:
            hint = write(otherwise)
    findings.error("E0404", written.span, message, hint)
    return None
