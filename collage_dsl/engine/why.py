"""`collage.why` and `collage.near` with the code of predicates, if it is allowed to run."""

from collections.abc import Sequence

import collage_dsl.report.why as documents
from collage_dsl.argument_types import with_checked_types
from collage_dsl.backends.base import Backend
from collage_dsl.engine.predicates import lookup
from collage_dsl.graph import Graph, last
from collage_dsl.report.why import NearDocument, WhyDocument
from collage_dsl.rules import Pattern


@with_checked_types()
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
    Why `pattern` does not match at the node `at` of `graph`, or how it matches. `print` shows it.
    `at` may name an ONNX node; of the nodes that came from it, the last is meant.

    `model` is the name to show for the graph. Raises KeyError if there is no such node, and
    `PredicateError` if the pattern asks host code, unless `allow_extern` is set. `backends` come
    before the installed ones.
    """
    code = lookup(allow_extern=allow_extern, backends=backends)
    found = graph.at(at)
    node = graph.nodes[last(found)].name if found else at
    return documents.why(pattern, graph, at=node, model=model, lookup=code)


@with_checked_types()
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
    The `top` nodes of `graph` without a match at which the largest share of `pattern` holds.
    `print` shows them. `model` is the name to show for the graph. The rest is as in `why`.
    """
    code = lookup(allow_extern=allow_extern, backends=backends)
    return documents.near(pattern, graph, top=top, model=model, lookup=code)
