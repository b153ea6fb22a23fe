"""What a pattern says of the convolutions in each of its matches."""

from functools import lru_cache

from collage_dsl.graph.convolutions import Convolution
from collage_dsl.graph.variants import CONVOLUTION, Computed
from collage_dsl.language.reasoning.claims.list_values import asked_list
from collage_dsl.language.reasoning.claims.required_calls import Called
from collage_dsl.language.reasoning.conclusions.exclusion import Effort, Exclusion
from collage_dsl.language.reasoning.conclusions.premises import premises_in
from collage_dsl.language.reasoning.patterns.written_out import written_out
from collage_dsl.language.reasoning.values.facts import Facts
from collage_dsl.rules.condition import Attr, DimAt
from collage_dsl.rules.pattern import Pattern


@lru_cache(100)
def known_convolutions(pattern: Pattern) -> tuple[tuple[Convolution, ...], ...]:
    """
    What is known of each `nn.conv2d` in every match, in each way in which the conditions can hold.
    The sides are those of a kernel in the layout OIHW, as the variants need it.
    """
    exclusion = Exclusion(premises_in(written_out(pattern), ()), Effort())
    ways = exclusion.ways(exclusion.premises.all)
    called = [each for each in exclusion.premises.calls if _is_convolution(each)]
    return tuple(tuple(_known(each, way) for way in ways) for each in called)


def _is_convolution(called: Called) -> bool:
    return called.call.ops == (CONVOLUTION,) and not called.call.optional and not called.call.kinds


def _known(called: Called, facts: Facts) -> Convolution:
    weight = called.operands[1]
    data, kernel, result = (
        _text(called, facts, name) for name in ("data_layout", "kernel_layout", "out_layout")
    )
    return Convolution(
        layouts=(data, kernel, result),
        kernel=(_number(facts, DimAt(weight, 2)), _number(facts, DimAt(weight, 3))),
        strides=_pair(called, facts, "strides"),
        dilation=_pair(called, facts, "dilation"),
        padding=asked_list(called, facts, "padding"),
        groups=_number(facts, called.attribute("groups")),
        channels=_number(facts, DimAt(weight, 1)),
    )


def _number(facts: Facts, term: DimAt | Attr) -> int | None:
    only = facts.of(term).only()
    return only if isinstance(only, int) else None


def _text(called: Called, facts: Facts, name: str) -> str | None:
    """A layout; None if it is not known, or empty, which stands for another one."""
    only = facts.of(called.attribute(name)).only()
    return only if isinstance(only, str) and only else None


def _pair(called: Called, facts: Facts, name: str) -> tuple[int, ...] | None:
    found = asked_list(called, facts, name)
    return found if found is not None and len(found) == 2 else None


def refusal(pattern: Pattern, variant: Computed) -> str:
    """Why a convolution in each match of `pattern` is none that `variant` computes, or empty."""
    if variant.refused is None:
        return ""
    for ways in known_convolutions(pattern):
        reasons = [variant.refused(each) for each in ways]
        if reasons and None not in reasons:
            return reasons[0] or ""
    return ""
