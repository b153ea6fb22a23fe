"""Shapes that are written with a letter for each dimension."""

import pytest

from collage_dsl.graph import TensorType, TupleType, Type
from collage_dsl.language.inference.lettered import Lettered, fitted
from collage_dsl.language.inference.shapes import Call, MismatchError, Shape

OP = "com.microsoft.SkipLayerNormalization"


def given(*shapes: Shape | None) -> Call:
    types = tuple(TensorType("float32", shape) for shape in shapes)
    return Call(OP, types, (None,) * len(types), {})


def shapes(type_: Type) -> list[Shape | None]:
    fields = type_.fields if isinstance(type_, TupleType) else (type_,)
    return [each.shape for each in fields if isinstance(each, TensorType)]


@pytest.mark.parametrize(
    ("lettered", "operands", "results"),
    [
        (Lettered("mk kn", "mn"), [("m", 4), (4, 5)], [("m", 5)]),
        (Lettered("*h h", "*h"), [(2, 3, "h"), (7,)], [(2, 3, 7)]),
        (Lettered("nc* c", "nc*"), [(1, 8, 5, 5), None], [(1, 8, 5, 5)]),
        (Lettered("*h ~h", "*h *1"), [(2, 3), (9, 9, 3)], [(2, 3), (2, 1)]),
        (Lettered("a .", "b ."), [(1,), (2, 2)], [("?",), None]),
        (Lettered("* *", "*"), [None, (1, 2)], [(1, 2)]),
    ],
)
def test_equal_letters_are_equal_dimensions(
    lettered: Lettered, operands: list[Shape | None], results: list[Shape | None]
) -> None:
    assert shapes(fitted(given(*operands), lettered)) == results


@pytest.mark.parametrize(
    ("lettered", "operands", "message"),
    [
        (
            Lettered("mk kn", "mn"),
            [(3, 4), (5, 6)],
            "`skip` has 5 in dimension 0, and `input` has 4 in dimension 1",
        ),
        (Lettered("ab", "a"), [(1, 2, 3)], "`input` has 2 dimensions, not 3"),
        (Lettered("*ab", "a"), [(1,)], "`input` has 2 dimensions or more, not 1"),
        (Lettered("a4", "a"), [(1, 5)], "`input` has 5 in dimension 1, not 4"),
        (Lettered("a* b*", "*"), [(1, 2), (1, 3)], "the dimensions of `input` and `skip` differ"),
    ],
)
def test_other_dimensions_are_refused(
    lettered: Lettered, operands: list[Shape | None], message: str
) -> None:
    with pytest.raises(MismatchError) as caught:
        fitted(given(*operands), lettered)

    assert str(caught.value) == message


def test_an_operand_that_may_be_left_out_may_be_any_of_several() -> None:
    lettered = Lettered("ab ?a ?b", "ab")

    assert shapes(fitted(given((2, 3), (2,)), lettered)) == [(2, 3)]
    assert shapes(fitted(given((2, 3), (3,)), lettered)) == [(2, 3)]
    with pytest.raises(MismatchError):
        fitted(given((2, 3), (4,)), lettered)


def test_what_must_be_equal_is_kept_where_only_one_way_fits() -> None:
    call = given(("a", 3), (3,))
    fitted(call, Lettered("ab ?a ?b", "ab"))
    assert call.agreed == []

    call = given((2, "b"), (3,))
    fitted(call, Lettered("ab ?a ?b", "ab"))
    assert call.agreed == [("b", 3)]
