"""How the shapes of the operands of one call go together."""

from collections.abc import Callable
from functools import partial
from math import inf

from collage_dsl.language.inference.einsum import OPEN, subscripts_for
from collage_dsl.language.inference.shapes import MismatchError
from collage_dsl.language.reasoning.claims.list_values import asked_list
from collage_dsl.language.reasoning.claims.rank_differences import differ
from collage_dsl.language.reasoning.claims.relations import Relation, table
from collage_dsl.language.reasoning.claims.required_calls import Called
from collage_dsl.language.reasoning.values.differences import Difference
from collage_dsl.language.reasoning.values.domain import Number, between, one_of
from collage_dsl.language.reasoning.values.facts import Facts
from collage_dsl.rules.condition import DimAt, Rank


def _of_one_shape(*places: int) -> Callable[[Called, Facts], None]:
    def of_one_shape(called: Called, facts: Facts) -> None:
        first, *others = (called.operands[place] for place in places)
        for other in others:
            facts.same_shape(first, other)

    return of_one_shape


def _same_rank(*places: int) -> Callable[[Called, Facts], None]:
    def same_rank(called: Called, facts: Facts) -> None:
        first, *others = (called.operands[place] for place in places)
        for other in others:
            facts.equal(Rank(first), Rank(other))

    return same_rank


def _indexed(most: Number, called: Called, facts: Facts) -> None:
    """There is a tensor of indices for each of the first dimensions, and `most` others."""
    if called.operands[1] in called.names.tuples:
        count = len(called.tensors(1))
        facts.narrow(Rank(called.operands[0]), between(count, count + most))


def _reversed(called: Called, facts: Facts) -> None:
    data, lengths = called.operands
    axis = asked_list(called, facts, "batch_axis")
    if axis is not None:
        facts.equal(DimAt(lengths, 0), DimAt(data, axis[0]))


def _scattered(called: Called, facts: Facts) -> None:
    """The last dimension of the indices says how many dimensions of the data they name."""
    data, places, given = called.operands
    count = facts.of(DimAt(places, -1)).only()
    if not isinstance(count, int):
        return
    facts.narrow(Rank(data), between(count, inf))
    rank, more = facts.of(Rank(data)).only(), facts.of(Rank(places)).only()
    if isinstance(rank, int) and isinstance(more, int):
        facts.narrow(Rank(given), one_of((rank + more - 1 - count,)))


def _gathered(called: Called, facts: Facts) -> None:
    """
    The last dimension of the indices says how many dimensions of the data they name, beside the
    batches, of which both have as many.
    """
    data, places = called.operands
    attribute = called.attribute("batch_dims")
    batches, _ = facts.of(attribute).bounds()
    names, _ = facts.of(DimAt(places, -1)).bounds()
    facts.narrow(Rank(places), between(batches + 1, inf))
    facts.narrow(Rank(data), between(batches + max(names, 1), inf))
    _, most = facts.of(Rank(data)).bounds()
    facts.narrow(DimAt(places, -1), between(1, most - batches))
    if attribute in facts.known and facts.possible:
        for name in called.operands:
            facts.differ(Difference(facts.first(attribute), "<", facts.first(Rank(name)), 0))


def _lost(called: Called, facts: Facts) -> None:
    """Predictions are `[batch, classes, …]` or `[classes]`; targets lack the classes."""
    predictions, targets, *weights = called.operands
    differ(facts, predictions, targets, 1, 1)
    least, most = facts.of(Rank(predictions)).bounds()
    if least >= 2:
        facts.equal(DimAt(targets, 0), DimAt(predictions, 0))
        for at in facts.asked_axes((targets,)):
            if at > 0:
                facts.equal(DimAt(targets, at), DimAt(predictions, at + 1))
    for name in weights:
        if least >= 2 or most <= 1:
            facts.equal(DimAt(name, 0), DimAt(predictions, 1 if least >= 2 else 0))
    reduction = facts.of(called.attribute("reduction"))
    if reduction.only() == "none":
        facts.same_shape(targets, called.result)
    elif "none" not in reduction:
        facts.narrow(Rank(called.result), one_of((0,)))


def _of_regions(called: Called, facts: Facts) -> None:
    regions = called.operands[1]
    facts.narrow(DimAt(regions, 1), one_of((5,)))
    facts.equal(DimAt(called.result, 0), DimAt(regions, 0))


def _on_grid(called: Called, facts: Facts) -> None:
    """There is a row for each axis of the size, with a column more than there are rows."""
    matrices, size = called.operands
    facts.narrow(Rank(called.result), between(3, inf))
    for axis in range(2):
        facts.equal(DimAt(called.result, axis), DimAt(matrices, axis))
    axes = facts.of(Rank(size)).only()
    if isinstance(axes, int):
        facts.narrow(DimAt(matrices, 1), one_of((axes,)))
        facts.narrow(DimAt(matrices, 2), one_of((axes + 1,)))
        facts.narrow(Rank(called.result), one_of((axes + 2,)))


def _by_subscripts(called: Called, facts: Facts) -> None:
    """Each operand and the result have a dimension for each of their letters."""
    text = facts.of(called.attribute("subscripts")).only()
    if not isinstance(text, str):
        return
    parts = called.tensors(0) if called.operands[0] in called.names.tuples else None
    try:
        subscripts = subscripts_for(text, None if parts is None else len(parts))
    except MismatchError as problem:
        facts.possible = False
        facts.mismatch = f"in `einsum`, {problem}"
        return
    named = [(called.result, subscripts.result)]
    named += zip(parts or (), subscripts.operands, strict=False)
    for name, letters in named:
        least = len(letters.replace(OPEN, ""))
        facts.narrow(Rank(name), between(least, inf if OPEN in letters else least))


operand_relations = table(
    ({"ewise_fma"}, Relation("{op} takes tensors of one shape", once=_of_one_shape(0, 1, 2))),
    (
        {"nn.cross_entropy_with_logits"},
        Relation("{op} takes a label for each prediction", once=_of_one_shape(0, 1)),
    ),
    (
        {"scatter_elements"},
        Relation("{op} takes a place for each element", once=_of_one_shape(1, 2)),
    ),
    (
        {"gather_elements", "scatter_elements"},
        Relation("{op} takes indices of the rank of the data", once=_same_rank(0, 1)),
    ),
    (
        {"onnx.Attention"},
        Relation("{op} takes a query, keys and values of one rank", once=_same_rank(0, 1, 2)),
    ),
    (
        {"index_tensor"},
        Relation("{op} takes indices of the first dimensions", once=partial(_indexed, inf)),
    ),
    (
        {"index_put"},
        Relation("{op} takes indices of each dimension", once=partial(_indexed, 0)),
    ),
    (
        {"reverse_sequence"},
        Relation("{op} takes a length for each element along `batch_axis`", again=_reversed),
    ),
    (
        {"scatter_nd"},
        Relation("a row of the indices of {op} names dimensions of the data", again=_scattered),
    ),
    (
        {"gather_nd", "onnx.GatherND"},
        Relation(
            "a row of the indices of {op} names dimensions of the data, after `batch_dims`",
            again=_gathered,
        ),
    ),
    (
        {"nn.nll_loss"},
        Relation("{op} takes a target for each prediction, and gives their loss", again=_lost),
    ),
    (
        {"vision.roi_align", "vision.roi_pool"},
        Relation("{op} takes 5 numbers for each region", once=_of_regions),
    ),
    (
        {"image.affine_grid"},
        Relation("{op} takes a matrix with a row for each axis of the size", again=_on_grid),
    ),
    (
        {"einsum"},
        Relation("{op} has a dimension for each letter of `subscripts`", again=_by_subscripts),
    ),
)
