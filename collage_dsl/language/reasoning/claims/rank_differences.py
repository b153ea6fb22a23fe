"""By how much the ranks of two values differ."""

from collage_dsl.language.reasoning.values.differences import Difference
from collage_dsl.language.reasoning.values.domain import Number, between, is_infinite
from collage_dsl.language.reasoning.values.facts import Facts
from collage_dsl.rules.condition import Rank


def differ(
    facts: Facts,
    larger: str,
    smaller: str,
    least: int,
    most: Number,
    surely: int | None = None,
) -> None:
    """
    Add that the rank of `larger` is more than that of `smaller`, by `least` to `most`. If `least`
    may turn out to be too large, `surely` is what it is at least.
    """
    above, below = Rank(larger), Rank(smaller)
    if least == most == 0:
        facts.equal(above, below)
    elif facts.first(above) == facts.first(below):
        facts.possible &= least <= 0
    else:
        low, high = facts.of(below).bounds()
        facts.narrow(above, between(low + least, high + most))
        low, high = facts.of(above).bounds()
        facts.narrow(below, between(low - most, high - least))
        if facts.possible:
            one, other = facts.first(above), facts.first(below)
            facts.differ(Difference(one, ">=", other, least if surely is None else surely))
            if not is_infinite(most):
                facts.differ(Difference(one, "<=", other, int(most)))
