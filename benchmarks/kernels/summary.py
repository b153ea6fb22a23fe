"""Rows of the comparison, and what they add up to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from kernels.cases import GOALS

LIBRARIES = ("onnxruntime", "openvino")
"""The engines that the goals compare with."""


@dataclass(frozen=True, slots=True)
class Result:
    """Microseconds and error. For a variant of ours, also the seconds to make it."""

    hot: float
    evicted: float
    error: float
    schedule_seconds: float = 0.0
    build_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Row:
    """One kernel: the results of the engines, those of our variants, and why an engine has none."""

    kind: str
    name: str
    engines: Mapping[str, Result]
    variants: Mapping[str, Result]
    missing: Mapping[str, str]

    @property
    def variant(self) -> str:
        """Our fastest variant when evicted."""
        return min(self.variants, key=lambda name: self.variants[name].evicted)

    def ratio(self, *, hot: bool, names: Sequence[str] = ()) -> float | None:
        """The time of our variant over the best of the engines `names`, or of all."""
        field = "hot" if hot else "evicted"
        known = [getattr(r, field) for n, r in self.engines.items() if not names or n in names]
        return getattr(self.variants[self.variant], field) / min(known) if known else None


def head(engines: Sequence[str]) -> str:
    columns = "".join(f"{name[:8]:>9}" for name in ("ours", *engines))
    ratios = f"{'ort,ov':>7}{'all':>6}"
    shown = [f"{'kernel':28} {'variant':12}", f"{columns}{ratios}", f"{columns}{ratios}", "error"]
    widths = [41, len(shown[1]), len(shown[2]), 8 * (1 + len(engines))]
    above = ["", "hot", "evicted", "error"]
    errors = "".join(f"{name[:7]:>8}" for name in ("ours", *engines))
    lines = [[f"{a:^{w}}" for a, w in zip(above, widths, strict=True)], [*shown[:3], errors]]
    return "\n".join(" |".join(line) for line in lines)


def line(row: Row, engines: Sequence[str]) -> str:
    best = row.variants[row.variant]
    results = [best, *(row.engines.get(name) for name in engines)]
    parts = [f"{row.name:28} {row.variant:12}"]
    for hot in (True, False):
        times = "".join(_time(result, hot) for result in results)
        two, every = row.ratio(hot=hot, names=LIBRARIES), row.ratio(hot=hot)
        parts.append(f"{times}{_ratio(two):>7}{_ratio(every):>6}")
    parts.append("".join(f"{'-' if r is None else f'{r.error:.0e}':>8}" for r in results))
    reasons = [f"\n    {name}: {reason}" for name, reason in row.missing.items()]
    return " |".join(parts) + "".join(reasons)


def _time(result: Result | None, hot: bool) -> str:
    return f"{'-':>9}" if result is None else f"{result.hot if hot else result.evicted:9.1f}"


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def summary(rows: Sequence[Row]) -> Iterator[str]:
    """For each kind, the mean and the worst ratio when evicted, and whether the goal is met."""
    yield f"{'kind':24}{'goal':>6}  {'mean':>6}{'worst':>7}{'all':>6}{'worst':>7}"
    for kind in dict.fromkeys(row.kind for row in rows):
        of_kind = [row for row in rows if row.kind == kind]
        two = _ratios(of_kind, LIBRARIES)
        every = _ratios(of_kind)
        goal = GOALS[kind]
        known = all(set(LIBRARIES) <= row.engines.keys() for row in of_kind)
        columns = [_ratio(value) for value in (_mean(two), max(two), _mean(every), max(every))]
        said = "" if goal is None or not known else "pass" if max(two) <= goal else "fail"
        shown = "".join(f"{c:>{w}}" for c, w in zip(columns, (6, 7, 6, 7), strict=True))
        yield f"{kind:24}{_ratio(goal):>6}  {shown}  {said}".rstrip()


def _ratios(rows: Sequence[Row], names: Sequence[str] = ()) -> list[float]:
    return [r for row in rows if (r := row.ratio(hot=False, names=names)) is not None]


def _mean(values: Sequence[float]) -> float:
    return prod(values) ** (1 / len(values))
