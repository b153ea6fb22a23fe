"""Find the code of predicates: in Python modules, TVM's pattern tables, and backends."""

from collections.abc import Sequence
from functools import cache, partial

from collage_dsl.backends.base import Backend
from collage_dsl.backends.registry import NO_BACKEND, BackendError, find_backend, refusal
from collage_dsl.engine.tables import table_lookup
from collage_dsl.graph import extract
from collage_dsl.rules.host_code import host_code
from collage_dsl.rules.predicate import (
    BACKEND,
    PATTERN_TABLE,
    Answer,
    BackendAnswer,
    Lookup,
    Predicate,
    PredicateError,
    Question,
)


def lookup(
    *,
    allow_extern: bool = False,
    tables: Lookup | None = None,
    backends: Sequence[Backend] = (),
) -> Lookup:
    """
    The lookup for predicates of every source.

    Host code runs only if `allow_extern` is set. `tables` finds the sources that begin with
    `pattern_table:`. A backend, one of `backends` or a registered one, can always be asked what it
    supports.
    """
    code = host_code(allow=allow_extern)
    checks = tables or partial(table_lookup, allow_extern=allow_extern)
    asked = cache(lambda name: _supported(name, backends))

    def find(predicate: Predicate) -> Answer:
        if predicate.source.startswith(BACKEND):
            return asked(predicate.backend)
        return (checks if predicate.source.startswith(PATTERN_TABLE) else code)(predicate)

    return find


def _supported(name: str, backends: Sequence[Backend]) -> BackendAnswer:
    """Answers why the backend `name` cannot run the nodes of a question as one kernel."""
    try:
        backend = find_backend(name, backends)
    except NO_BACKEND as error:
        raise PredicateError(f"what `{name}` supports cannot be asked: {error}") from error

    def supports(question: Question) -> str:
        alone = extract(question.graph, question.inside, question.constants)
        try:
            return refusal(backend, alone.graph)
        except BackendError as error:
            raise PredicateError(str(error)) from error

    return BackendAnswer(supports, backend.binds_constants)
