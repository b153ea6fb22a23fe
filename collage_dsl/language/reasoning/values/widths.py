"""Compare numbers of bytes with those of elements where the width of an element is not known."""

from itertools import combinations

from collage_dsl.language.reasoning.values.facts import Facts
from collage_dsl.language.reasoning.values.narrowing import differ
from collage_dsl.language.reasoning.values.numbers import widths_of
from collage_dsl.rules.condition import Bytes, Calculate, Constant, Dtype, Size

_BITS = 8
"""The bits of a byte."""


def compare_bytes(facts: Facts) -> None:
    """Add what is known by now of the numbers of bytes that are asked about."""
    asked = sorted((term for term in facts.known if isinstance(term, Bytes)), key=str)
    for one, other in combinations(asked, 2):
        if all(facts.first(of(one.of)) == facts.first(of(other.of)) for of in (Dtype, Size)):
            facts.equal(one, other)
    for term in asked:
        _bound(facts, term)


def _bound(facts: Facts, term: Bytes) -> None:
    """
    Add that a value has the bits of the narrowest elements at least, and of the widest at most, up
    to a whole byte. What follows from a single width of whole bytes is said elsewhere.
    """
    widths, size = widths_of(facts.of(Dtype(term.of))), Size(term.of)
    if not widths or (len(widths) == 1 and not max(widths) % _BITS):
        return
    bits, most = Calculate("*", term, Constant(_BITS)), Calculate("*", size, Constant(max(widths)))
    differ(facts, "<=", Calculate("*", size, Constant(min(widths))), bits)
    differ(facts, "<=", bits, Calculate("+", most, Constant(_BITS - 1)))
