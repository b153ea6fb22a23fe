"""Report a target that makes the same kernels as another one, in the same way."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from collage_dsl.diagnostics import Note
from collage_dsl.language.messages.findings import Findings
from collage_dsl.language.syntax import ast
from collage_dsl.rules import FusionSpec

Costs = Mapping[str, Mapping[str, float]]
"""The prices of operators that a test gives to targets, by the name of the target."""


def check_same_targets(
    specs: Sequence[tuple[ast.Name, FusionSpec]], costs: Sequence[Costs], findings: Findings
) -> None:
    """
    Report each of `specs` that differs from another one only in its name and priority: its kernels
    cost the same, unless a test gives them other `costs`. Of two, it is the one of lower priority,
    else the later one.
    """
    found: list[tuple[ast.Name, FusionSpec, FusionSpec]] = []
    for name, spec in sorted(specs, key=lambda each: -each[1].target.priority):
        plain = replace(spec, target=replace(spec.target, name="", priority=0))
        alike = ((n, s) for n, s, other in found if other == plain)
        same = next(((n, s) for n, s in alike if not _differ(n.text, name.text, costs)), None)
        if same is None:
            found.append((name, spec, plain))
            continue
        other, better = same
        apart = "" if spec.target.priority == better.target.priority else " except for its priority"
        message = f"`{name.text}` is the same as `{other.text}`{apart}, so it makes no plan cheaper"
        hint = "remove it, or write what is different, such as another `compiler`"
        findings.warning("W0420", name.span, message, hint, (Note("the other target", other.span),))


def _differ(one: str, other: str, costs: Sequence[Costs]) -> bool:
    """Whether a test gives two targets different costs."""
    return any({one, other} <= each.keys() and each[one] != each[other] for each in costs)
