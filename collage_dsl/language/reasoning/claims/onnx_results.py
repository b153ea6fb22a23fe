"""Which results of an operator of ONNX those are that a pattern names."""

from collections.abc import Iterator

from collage_dsl.graph.operators import operators
from collage_dsl.language.reasoning.claims.required_calls import Called


def results_of_onnx(called: Called) -> Iterator[tuple[str, range]]:
    """
    The results that the pattern names, each with the places that it may have in the definition.

    A node gives only those that are used, in order. A single one is any of them. Of three, `s.1` is
    the second or the third, and the second one if the pattern also names `s.2`.
    """
    most = operators()[called.call.ops[0]].most_results or 0
    named = called.names.fields.get(called.result, {})
    if not named:
        yield called.result, range(most)
        return
    absent = most - max(2, *(at + 1 for at in named))
    for at, name in named.items():
        if absent >= 0:
            yield name, range(at, at + absent + 1)
