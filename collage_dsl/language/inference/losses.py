"""Infer the types of losses."""

from collage_dsl.graph import Type
from collage_dsl.language.inference.shapes import (
    Call,
    MismatchError,
    Shape,
    check_unless_bool,
    more_exact_shape,
    result,
)


def nll_loss(call: Call) -> Type:
    """Predictions are `[batch, classes, …]` or `[classes]`; targets lack the classes."""
    check_unless_bool((*call.types[:1], *call.types[2:]))
    predictions, targets, weights = (call.shape(at) for at in range(3))
    if weights is not None and len(weights) != 1:
        raise MismatchError(f"weights have 1 dimension, not {len(weights)}")
    wanted: Shape | None = None
    if predictions is not None:
        if not predictions:
            raise MismatchError("predictions have 1 dimension at least")
        classes = predictions[min(1, len(predictions) - 1)]
        wanted = (*predictions[:1], *predictions[2:]) if len(predictions) > 1 else ()
        if weights is not None:
            call.agree(weights[0], classes, f"{weights[0]} weights do not fit {classes} classes")
        if targets is not None:
            call.agree_all(targets, wanted, "there is not one target for each prediction")
    if call.text("reduction") == "none":
        return result(call, more_exact_shape(targets, wanted))
    return result(call, ())


def cross_entropy(call: Call) -> Type:
    check_unless_bool(call.types)
    predictions, labels = call.shape(0), call.shape(1)
    if predictions is not None and labels is not None:
        call.agree_all(predictions, labels, "there is not one label for each prediction")
    return result(call, ())
