"""Report paths of calls that do not take what they are from, or what the calls before them give."""

from dataclasses import replace
from functools import cache
from typing import Protocol

from collage_dsl.graph import Kind
from collage_dsl.graph.operators import Taken, operators
from collage_dsl.language.messages.findings import Findings, listed, quoted
from collage_dsl.language.reasoning.findings.sorts_of_values import Sorts, last_call
from collage_dsl.language.reasoning.findings.value_sorts import Sort, Tensor, Tuple
from collage_dsl.language.syntax import ast
from collage_dsl.rules.pattern import PathFrom
from collage_dsl.source import Span


class Report(Protocol):
    def __call__(
        self, code: str, span: Span, message: str, hint: str, *, certain: bool
    ) -> None: ...


def check_path(
    path: PathFrom,
    written: ast.PathFrom,
    sorts: Sorts,
    report: Report,
    findings: Findings,
    *,
    certain: bool,
) -> None:
    """
    Report a path from a tuple of calls that take tensors, or the reverse, and calls that do not
    take what the calls of the path give. Tuples that are written, and fields, are on no path.
    """
    taken = _taken(path.ops, path.kinds)
    if "any" in taken or Kind.OPAQUE in path.kinds:
        return
    given, result = sorts.of(path.origin), sorts.result(last_call(path))
    if _refuses(taken, given):
        message = f"each call on this path takes {_other(given)}, "
        message += f"but {quoted(written.origin.span)} is {given}"
        is_sure = certain and path.least > 0 and not path.kinds
        hint = _from(given, written, path.names[0])
        report("E0312", written.origin.span, message, hint, certain=is_sure)
    elif path.most > 1 and _refuses(taken, result):
        message = f"each call on this path takes {_other(result)}, but gives {result}"
        hint = f"write one call without `path`: `{path.names[0]}({_text(written)})`"
        if path.least > 1:
            report("E0312", written.span, message, hint, certain=certain)
        else:
            message = f"at most one call is on this path: {message}"
            findings.warning("W0314", written.span, message, hint)
    elif not path.kinds:
        known = (given, *(sorts.result(last_call(replace(path, ops=(op,)))) for op in path.ops))
        never = [op for op in path.ops if all(_refuses(_taken((op,), ()), each) for each in known)]
        if never:
            message = f"no call on this path is of {listed(never, 'or')}: "
            message += f"nothing on it is {_taken_by(never[0])}"
            findings.warning("W0314", written.span, message, f"remove `{never[0]}`")


def _refuses(taken: frozenset[Taken], given: Sort) -> bool:
    """Whether what is given is a tuple or a tensor, and nothing takes one."""
    match given:
        case Tensor():
            return "tensor" not in taken
        case Tuple():
            return "tuple" not in taken
        case _:
            return False


@cache
def _taken(ops: tuple[str, ...], kinds: tuple[Kind, ...]) -> frozenset[Taken]:
    """
    What the operators of a path take, each at some place. Of those of a kind, compiled functions
    and `clip` are left out, which take tensors in all models that can be compiled.
    """
    named = [operators()[op].takes or ("any",) for op in ops]
    of_kind = [each for each in operators().values() if not each.kinds.isdisjoint(kinds)]
    words = {word for takes in named for word in takes}
    return frozenset(words | {word for each in of_kind for word in each.takes if word != "any"})


def _other(sort: Sort) -> Sort:
    return Tuple() if isinstance(sort, Tensor) else Tensor()


def _taken_by(op: str) -> Sort:
    return Tensor() if "tensor" in operators()[op].takes else Tuple()


def _from(given: Sort, written: ast.PathFrom, op: str) -> str:
    if isinstance(given, Tuple):
        return f"write `from {_text(written)}.0` for its first tensor"
    return f"write the call without `path`: `{op}(({_text(written)}, …))`"


def _text(written: ast.PathFrom) -> str:
    return quoted(written.origin.span, "").strip("`") or "…"
