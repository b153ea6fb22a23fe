"""What facts are about: a value, its dtype, or the attributes of a call."""

from collage_dsl.language.reasoning.values.terms import Term
from collage_dsl.rules.condition import Attr, Dtype, Each, Item


def subject(name: str) -> str:
    """
    What a name of a value or an attribute is about: for an attribute the number of its call, for
    most values their name.
    """
    return name.partition(".")[0]


def subject_of_dtype(name: str) -> str:
    """What the dtype of a value is about: dtypes say nothing of shapes, nor shapes of dtypes."""
    return f"{subject(name)}.dtype"


def subject_of(term: Term) -> str:
    match term:
        case Dtype(of):
            return subject_of_dtype(of)
        case Attr(name):
            return subject(name)
        case Each(attribute) | Item(attribute):
            return subject(attribute.name)
        case _:
            return subject(term.of)


def typed(name: str) -> str:
    """The name of whether a value is a tensor, which has a dtype and a shape."""
    return f"{name}.type"
