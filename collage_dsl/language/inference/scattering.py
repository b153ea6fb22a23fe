"""Infer the types of operators that put elements in places that a tensor says, or reorder them."""

from collage_dsl.graph import Type
from collage_dsl.language.inference.shapes import (
    UNKNOWN_DIM,
    Call,
    MismatchError,
    axis_in,
    check_dtypes,
    like_first,
)


def scattering_elements(call: Call) -> Type:
    check_dtypes((call.types[0], call.types[2]))
    shape, places, given = (call.shape(at) for at in range(3))
    for other in (places, given):
        if shape is not None and other is not None and len(other) != len(shape):
            raise MismatchError(f"{len(other)} dimensions do not fit {len(shape)} of data")
    if places is not None and given is not None:
        call.agree_all(places, given, "there is not one place for each element")
    return like_first(call)


def scattering_slices(call: Call) -> Type:
    """Each row of the last dimension of the indices is the place of a slice."""
    check_dtypes((call.types[0], call.types[2]))
    shape, places, given = (call.shape(at) for at in range(3))
    if places == ():
        raise MismatchError("places have 1 dimension at least")
    if shape is None or places is None or not isinstance(places[-1], int):
        return like_first(call)
    if places[-1] > len(shape):
        raise MismatchError(f"{places[-1]} indices do not fit {len(shape)} dimensions")
    if given is not None:
        wanted = (*places[:-1], *shape[places[-1] :])
        call.agree_all(given, wanted, "there is not one place for each slice")
    return like_first(call)


def reversing(call: Call) -> Type:
    """The second operand has a length for each element along the batch axis."""
    shape, lengths = call.shape(), call.shape(1)
    if lengths is not None and len(lengths) != 1:
        raise MismatchError(f"lengths have 1 dimension, not {len(lengths)}")
    if shape is not None:
        batch = shape[axis_in(call.whole("batch_axis") or 0, len(shape))]
        dim = UNKNOWN_DIM if lengths is None else lengths[0]
        call.agree(dim, batch, f"{dim} lengths do not fit a dimension of {batch}")
        axis_in(call.whole("seq_axis") or 0, len(shape))
    return like_first(call)
