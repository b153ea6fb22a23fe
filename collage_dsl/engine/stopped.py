"""Warn of rules that stopped before they had proposed everything."""

import warnings
from collections.abc import Iterable

from collage_dsl.diagnostics import excerpt
from collage_dsl.rules.trace import Stop


class StoppedWarning(UserWarning):
    """A rule or a pattern of a spec stopped at its bound; what it found until then is proposed."""


def warn_of(target: str, stops: Iterable[Stop]) -> None:
    """Warn with `StoppedWarning` of each of the `stops` of a target's rules."""
    for stop in stops:
        warnings.warn(StoppedWarning(told(target, stop)), stacklevel=4)


def told(target: str, stop: Stop) -> str:
    """What stopped, after how much, at which node, and what to write instead."""
    if stop.of == "steps":
        place = f"{stop.span}" if stop.span else f"target `{target}`"
        stopped = f"pattern `{stop.rule}` stopped after {stop.number} steps at `{stop.node}`"
        lines = [
            f"{place}: warning[W0334]: {stopped}; some matches may be missing",
            *(excerpt(stop.span) if stop.span else ()),
            "help: write several patterns with fewer optional parts",
        ]
        return "\n".join(lines)
    return (
        f"target `{target}`: warning[W0424]: `{stop.rule}` stopped with {stop.number} candidates, "
        f"most of them around `{stop.node}`; some candidates are missing\n"
        f"help: {_INSTEAD[stop.rule]}, or allow more with `max_candidates` in the `limits` of the "
        "target (where it has none, on the command line with `--max-candidates`)"
    )


_INSTEAD = {
    "combine_by_primitives": "write `max_nodes`, `max_depth` or `max_splits`",
    "horizontal": "write a smaller `max`, or let the rule in it propose less",
    "vertical": "write a smaller `max_depth`, or let the rule in it propose less",
}
