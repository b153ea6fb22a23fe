"""Why a pattern does not match, with the code of its predicates where it may run."""

from collections.abc import Sequence

import collage_dsl.report.why as documents
from collage_dsl.backends.base import Backend
from collage_dsl.engine.predicates import lookup
from collage_dsl.graph import Graph
from collage_dsl.report.why import NearDocument, WhyDocument
from collage_dsl.rules import Pattern


def why(
    pattern: Pattern,
    graph: Graph,
    *,
    at: str,
    model: str | None = None,
    allow_extern: bool = False,
    backends: Sequence[Backend] = (),
) -> WhyDocument:
    """
    Why `pattern` does not match at the node `at` of `graph`, or how it does; `print` shows it.

    `model` is what to call the graph. Raises KeyError where there is no such node, and
    `PredicateError` where the pattern asks host code, unless `allow_extern` lets it run.
    `backends` are asked before those that are installed.
    """
    code = lookup(allow_extern=allow_extern, backends=backends)
    return documents.why(pattern, graph, at=at, model=model, lookup=code)


def near(
    pattern: Pattern,
    graph: Graph,
    *,
    top: int = 10,
    model: str | None = None,
    allow_extern: bool = False,
    backends: Sequence[Backend] = (),
) -> NearDocument:
    """
    The `top` nodes of `graph` at which the most of `pattern` holds without a match; `print`
    shows them. `model` is what to call the graph; the rest is as in `why`.
    """
    code = lookup(allow_extern=allow_extern, backends=backends)
    return documents.near(pattern, graph, top=top, model=model, lookup=code)
