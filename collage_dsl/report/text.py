"""Write the JSON answers of the commands as text for people."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from collage_dsl.printable import printable
from collage_dsl.report.documents import (
    CandidateDocument,
    CandidatesDocument,
    CompileDocument,
    ContenderDocument,
    ErrorDocument,
    KernelDocument,
    MeasurementsDocument,
    PlanDocument,
    RaceDocument,
    RefinementDocument,
    ReplayDocument,
    ReplayedDocument,
    RunDocument,
    SearchDocument,
    VerificationDocument,
)
from collage_dsl.search import CLOSE, FORESEEN

_REASONS = 3
"""How many reasons why kernels are infeasible are shown at most."""

_NO_GAP = 1e-9
"""A smaller difference of two costs comes from rounding; the costs are the same."""

_LONGEST = 48
"""Longer labels are cut: a merged kernel of hundreds of operators still takes one line."""


def candidates_text(document: CandidatesDocument) -> str:
    """A table of the candidates, and their number."""
    rows = [(c.target, c.label, ", ".join(c.nodes), _named(c)) for c in document.candidates]
    found = table(*_without_empty(("target", "kernel", "nodes", "from the ONNX nodes"), rows))
    return f"{found}{_count(len(rows), 'candidate')}\n"


def plan_text(document: PlanDocument) -> str:
    """A table of the kernels, what they cost together, and how the plan was found."""
    several = len({kernel.source for kernel in document.kernels}) > 1
    rows = [_kernel_row(kernel, with_source=several) for kernel in document.kernels]
    cells = ("target", "variant", "kernel", "result", "cost", "source", "error")
    head = (*cells, "from the ONNX nodes")
    kernels = table(*_without_empty(head, rows))
    total = (
        f"{_count(document.operators, 'operator')} in {_count(len(rows), 'kernel')}, "
        f"estimated {seconds(document.cost)}{_copies(document)}\n{_timed_at(document)}"
    )
    measurements = document.measurements
    found = search_text(document.search) if document.search else ""
    counted = measurements_text(measurements) if measurements else ""
    sources = "" if several else _sources(document)
    said = total + sources + _variants(document) + _fast_math(document)
    return kernels + said + found + counted


def _kernel_row(kernel: KernelDocument, *, with_source: bool) -> tuple[str, ...]:
    error = "" if kernel.error is None else f"{kernel.error:.0e}"
    where = kernel.target, kernel.variant, _short(kernel.label), kernel.nodes[-1]
    source = f"{kernel.source} {_day(kernel)}".rstrip() if with_source else ""
    return (*where, seconds(kernel.cost), source, error, _named(kernel))


def _day(kernel: KernelDocument) -> str:
    """The day on which the cost of a kernel was measured; empty if it was not."""
    return kernel.measured_at.partition(" ")[0]


def _sources(document: PlanDocument) -> str:
    """How many costs each source gave, and the days on which they were measured."""
    found: dict[str, list[str]] = {}
    for kernel in document.kernels:
        if kernel.source:
            found.setdefault(kernel.source, []).append(_day(kernel))
    said = (
        f"{printable(source)}{f' {len(days)}' * (len(found) > 1)}{_days(days)}"
        for source, days in found.items()
    )
    return f"costs: {', '.join(said)}\n" if found else ""


def _days(days: Sequence[str]) -> str:
    known = sorted(filter(None, days))
    if not known:
        return ""
    first, last = known[0], known[-1]
    return f" ({first})" if first == last else f" ({first} to {last})"


def _named(candidate: CandidateDocument) -> str:
    """The names of the ONNX nodes that a kernel came from: the first, and the last of several."""
    names = [each.name for each in candidate.onnx if each.name]
    return names[0] if len(names) == 1 else f"{names[0]} … {names[-1]}" if names else ""


def _without_empty(
    head: Sequence[str], rows: Sequence[tuple[str, ...]]
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """A table without the columns that no row has anything in."""
    kept = [i for i in range(len(head)) if not rows or any(row[i] for row in rows)]
    return tuple(head[i] for i in kept), [tuple(row[i] for i in kept) for row in rows]


def _variants(document: PlanDocument) -> str:
    """How many kernels each variant computes, and its largest error."""
    found: dict[str, list[float]] = {}
    for kernel in document.kernels:
        if kernel.variant:
            found.setdefault(kernel.variant, []).append(kernel.error or 0.0)
    said = (
        f"{name} {len(errors)}" + (f" (error {max(errors):.0e})" if max(errors) else "")
        for name, errors in found.items()
    )
    return f"kernels by variant: {', '.join(said)}\n" if len(found) > 1 else ""


def _fast_math(document: PlanDocument) -> str:
    """Which kernels need not follow IEEE 754."""
    names = ", ".join(document.fast_math)
    return f"fast math in kernels of {names}: NaN and infinities may be lost\n" if names else ""


def _timed_at(document: PlanDocument) -> str:
    """The sizes for which the costs are, of dimensions that may have any size."""
    return f"times are for {_sizes(document.timed_at)}\n" if document.timed_at else ""


def _sizes(sizes: Mapping[str, int]) -> str:
    return printable(", ".join(f"{name} = {size}" for name, size in sizes.items()))


def _copies(document: PlanDocument) -> str:
    copies = sum(kernel.copies for kernel in document.kernels)
    return f", {seconds(copies)} of it for copies between devices" if copies else ""


def compile_text(document: CompileDocument) -> str:
    """The plans with their estimated and measured times, and the error of the outputs."""
    head = f"{printable(document.model)}: {_count(document.plan.operators, 'operator')}\n"
    if not document.sizes:
        return f"{head}\n{_race_text(document)}"
    races = [f"\nany size:\n{_race_text(document)}"]
    for each in document.sizes:
        races.append(f"\n{_sizes(each.sizes)}:\n{_race_text(each)}")
    return head + "".join(races)


def replay_text(document: ReplayDocument) -> str:
    """The plans that were found again, and what is different."""
    return "\n".join(_replayed(each, len(document.plans) > 1) for each in document.plans)


def _replayed(document: ReplayedDocument, is_one_of_several: bool) -> str:
    head = f"{_sizes(document.sizes) or 'any size'}:\n" if is_one_of_several else ""
    if document.plan is None:
        return f"{head}no plan `{printable(document.chosen)}`: {document.reason}\n"
    other = ", ".join(map(_short, document.differences))
    said = f"other kernels than were frozen: {other}" if other else "the kernels that were frozen"
    return f"{head}{plan_text(document.plan)}{said}\n"


def _race_text(document: RaceDocument) -> str:
    lines = [
        *_contenders(document),
        *(f"launching a kernel of {t}: {seconds(s)}" for t, s in document.launch.items()),
    ]
    if document.verification:
        lines.append(_verification(document.verification))
    plan = document.plan
    kernels = _timed_at(plan) + _sources(plan) + _variants(plan) + _fast_math(plan)
    return "\n".join(lines) + "\n" + kernels + measurements_text(document.measurements)


def _contenders(document: RaceDocument) -> Iterator[str]:
    if not document.contenders:
        kernels = _count(len(document.plan.kernels), "kernel")
        yield f"the plan `{document.chosen}` of {kernels}, as it was frozen"
        return
    rows = [_contender_row(c, document.chosen) for c in document.contenders]
    head = ("plan", "operators in kernels", "estimated", "measured", "error", "spread", "")
    yield table(head, rows)
    yield _gain(document)
    if document.refinement:
        yield _refinement(document.refinement)


def _verification(document: VerificationDocument) -> str:
    kernel, output = document.kernel, document.output
    checked = document.kernels - len(document.unchecked)
    lines = []
    if output:
        lines.append(f"largest error against {document.reference}: {_error(output)}")
    if kernel:
        where = f"{_short(kernel.label)} of {kernel.target}"
        lines.append(f"largest error of one kernel: {_error(kernel)}, by {where}")
    lines.append(
        f"compared: {checked} of {_count(document.kernels, 'kernel')}, and the outputs; "
        f"inputs: {', '.join(document.draws)}"
    )
    return "\n".join(lines)


def _error(document: ErrorDocument) -> str:
    return (
        f"{document.error:.1e} of the largest value of `{document.node}` "
        f"({document.tolerance:.0e} allowed)"
    )


def search_text(document: SearchDocument) -> str:
    """How the plan was found, and how good it is known to be."""
    if document.predicted:
        known = (
            f"no plan is more than {CLOSE:.0%} cheaper, unless a kernel without a price costs "
            f"less than {FORESEEN:.0%} of what is predicted"
        )
    elif document.gap < _NO_GAP:
        known = "no plan is cheaper"
    else:
        known = f"a cheaper one saves at most {document.gap:.1%}"
    return (
        f"searched by {document.strategy} ({document.because}): {known}\n"
        f"{_count(document.states, 'state')} explored; {document.priced} of "
        f"{_count(document.candidates, 'candidate')} priced, {document.infeasible} infeasible\n"
    )


def run_text(document: RunDocument) -> str:
    """A table of the outputs, and how long a run takes."""
    rows = [
        (
            name,
            f"{value.dtype}{value.shape}",
            *(
                "none" if n is None else f"{n:.4g}"
                for n in (value.smallest, value.largest, value.mean)
            ),
        )
        for name, value in document.outputs.items()
    ]
    outputs = table(("output", "type", "smallest", "largest", "mean"), rows)
    measured = document.measured
    at = f", of random inputs: {_sizes(document.sizes)}" if document.sizes else ""
    return f"{outputs}{seconds(measured.seconds)} a run, over {_count(measured.runs, 'run')}{at}\n"


def measurements_text(document: MeasurementsDocument) -> str:
    """What was measured; empty where no cost was needed, as for a frozen plan."""
    if not document.found:
        return ""
    first = (
        f"{_count(document.found, 'distinct kernel')}: {document.measured} measured now, "
        f"{document.reused} reused, {document.infeasible} infeasible\n"
    )
    reasons = sorted(document.reasons.items(), key=lambda item: -item[1])[:_REASONS]
    first += f"waited {seconds(document.queued)} for devices\n" if document.queued else ""
    first += f"{_count(document.lost, 'device')} lost, and replaced\n" if document.lost else ""
    listed = "".join(f"  {count} x {printable(reason)}\n" for reason, count in reasons)
    if not document.retried:
        return first + listed
    expires = (
        f"a time-out, a crash or exhausted memory expires, the first on {document.retried[:10]}"
    )
    return f"{first}{listed}  {expires}\n"


def seconds(value: float) -> str:
    """A time in the unit that suits it: `13.1 us`, `2.40 ms`, `1.20 s`."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if value >= size:
            return f"{value / size:.2f} {unit}"
    return f"{value * 1e6:.1f} us"


def _contender_row(contender: ContenderDocument, chosen: str) -> tuple[str, ...]:
    name = f"{contender.name} alone" if contender.alone else contender.name
    measured = contender.measured
    if measured is None or contender.estimated is None or contender.error is None:
        return (name, "", "", "", "", "", contender.reason or "not built")
    is_kept = contender.name == chosen
    return (
        name,
        ", ".join(f"{t} {s.operators} in {s.kernels}" for t, s in contender.targets.items()),
        seconds(contender.estimated),
        seconds(measured.seconds),
        f"{contender.error:+.0%}",
        seconds(measured.spread),
        "<- kept" if is_kept else "as fast" if contender.tied else "",
    )


def _gain(document: RaceDocument) -> str:
    """The measured time of what was kept beside the fastest single target."""
    raced = {c.name: c for c in document.contenders if c.measured}
    times = {name: c.measured.seconds for name, c in raced.items() if c.measured}
    kept = times[document.chosen]
    alone = [name for name, contender in raced.items() if contender.alone]
    if raced[document.chosen].alone:
        return f"kept {document.chosen} alone: {seconds(kept)}; mixing targets was not faster"
    said = f"kept the {document.chosen} plan: {seconds(kept)}"
    if not alone or (document.refinement and document.refinement.kept):
        return said  # The refined plan did not run beside single targets.
    best = min(alone, key=lambda name: times[name])
    if raced[document.chosen].tied and raced[best].tied:
        return f"{said}; {best} alone is as fast, as far as the race can tell"
    return f"{said}, {1 - kept / times[best]:.0%} less than {best} alone"


def _refinement(document: RefinementDocument) -> str:
    """What the refinement has tried, and what it has gained."""
    budget = f"{document.budget:.0f} s"
    until = f"until no other plan was found, in less than {budget}"
    how_long = until if document.complete else f"for {budget}"
    tried = f"refined {how_long}: {_count(document.run, 'plan')} run"
    known = f", {document.known} known before" if document.known else ""
    failed = f", {document.failed} could not be built" if document.failed else ""
    if document.before is None or document.after is None:
        return f"{tried}{known}{failed}; none was faster"
    before, after = document.before.seconds, document.after.seconds
    raced = f"{seconds(before)} before, {seconds(after)} after, in alternation"
    kept = raced if document.kept else f"{raced}: not faster for certain, so not kept"
    return f"{tried}{known}{failed}; {kept}"


def _short(label: str) -> str:
    parts = label.split("+")
    if len(label) <= _LONGEST:
        return label
    return f"{parts[0]}+…+{parts[-1]} ({len(parts)} operators)"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Columns as wide as their widest cell, two spaces apart."""
    cells = [tuple(head), *(tuple(map(printable, row)) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    )
    return "\n".join(lines) + "\n"
