"""Infer the types of operators that detect objects in images, and choose among their boxes."""

from collections.abc import Callable, Mapping

from collage_dsl.graph import Dim, TensorType, TupleType, Type
from collage_dsl.language.inference.shapes import (
    UNKNOWN_DIM,
    Call,
    MismatchError,
    Shape,
    check_dtypes,
    is_no_multiple,
    like_first,
    product,
    result,
    times,
)


def _of_rank(rank: int, call: Call, at: int, name: str) -> Shape:
    """The shape of an operand, whose dimensions may be unknown."""
    shape = call.shape(at)
    if shape is not None and len(shape) != rank:
        raise MismatchError(f"`{name}` has {rank} dimensions, not {len(shape)}")
    return (UNKNOWN_DIM,) * rank if shape is None else shape


def _check_place(call: Call, name: str, least: int, length: Dim, needed: int = 1) -> None:
    """Raise unless `needed` numbers of a box begin at the attribute `name`."""
    place = call.known_whole(name)
    if place is None or not isinstance(length, int):
        return
    if not least <= place <= length - needed:
        numbers = "a number" if needed == 1 else f"{needed} numbers"
        raise MismatchError(f"`{name}` {place} leaves no room for {numbers}: a box has {length}")


def counting_boxes(call: Call) -> Type:
    """How many boxes of each batch are valid, all boxes with these first, and their places."""
    batches, boxes, numbers = _of_rank(3, call, 0, "data")
    _check_place(call, "score_index", 0, numbers)
    _check_place(call, "id_index", -1, numbers)
    counts, places = TensorType("int32", (batches,)), TensorType("int32", (batches, boxes))
    return TupleType((counts, like_first(call), places))


def suppressing(call: Call) -> Type:
    """Without `return_indices`, the result is the boxes, and no tuple."""
    batches, boxes, numbers = _of_rank(3, call, 0, "data")
    (count,), places = _of_rank(1, call, 1, "valid_count"), _of_rank(2, call, 2, "indices")
    call.agree(count, batches, f"{count} counts do not fit {batches} batches")
    call.agree(places[0], batches, f"{places[0]} batches of indices do not fit {batches} of boxes")
    call.agree(places[1], boxes, f"{places[1]} indices do not fit {boxes} boxes")
    _check_place(call, "score_index", 0, numbers)
    _check_place(call, "id_index", -1, numbers)
    _check_place(call, "coord_start", 0, numbers, needed=4)
    if call.attrs.get("return_indices") is False:
        return like_first(call)
    kept, counts = TensorType("int32", (batches, boxes)), TensorType("int32", (batches, 1))
    return TupleType((kept, counts))


def suppressing_by_class(call: Call) -> Type:
    """TVM does not compare the boxes with the scores."""
    batches, boxes, _ = _of_rank(3, call, 0, "boxes")
    classes = _of_rank(3, call, 1, "scores")[1]
    if call.text("output_format") == "onnx":
        kept = TensorType("int64", (product((batches, classes, boxes)), 3))
        return TupleType((kept, TensorType("int64", (1,))))
    each = product((classes, boxes))
    kept, scores = TensorType("int64", (batches, each, 2)), TensorType("float32", (batches, each))
    return TupleType((kept, scores, TensorType("int64", (batches,))))


def placing_boxes(call: Call) -> Type:
    """The boxes that the anchors and the predicted offsets make, and the scores of each class."""
    check_dtypes(call.types)
    batches, classes, boxes = _of_rank(3, call, 0, "cls_pred")
    rows, offsets = _of_rank(2, call, 1, "loc_pred")
    one, anchors, numbers = _of_rank(3, call, 2, "anchor")
    call.agree(rows, batches, f"offsets of {rows} batches do not fit scores of {batches}")
    call.agree(anchors, boxes, f"{anchors} anchors do not fit scores of {boxes} boxes")
    call.agree(one, 1, f"anchors are of 1 batch, not of {one}")
    call.agree(numbers, 4, f"an anchor has 4 numbers, not {numbers}")
    if is_no_multiple(offsets, 4):
        raise MismatchError(f"{offsets} offsets are no multiple of 4")
    call.agree(offsets, times(boxes, 4), f"{offsets} offsets do not fit {boxes} boxes")
    return TupleType((result(call, (batches, boxes, 4)), result(call, (batches, classes, boxes))))


DETECTION_RULES: Mapping[str, Callable[[Call], Type]] = {
    "vision.all_class_non_max_suppression": suppressing_by_class,
    "vision.get_valid_counts": counting_boxes,
    "vision.multibox_transform_loc": placing_boxes,
    "vision.non_max_suppression": suppressing,
}
