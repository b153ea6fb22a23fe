"""`collage costs`: look at the store of measured costs, and keep it in order."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from pathlib import Path

from collage_dsl.cli.answer import answer
from collage_dsl.cli.cost_store import existing_store
from collage_dsl.cli.documents import (
    CalibrationDocument,
    KnownDocument,
    RatesDocument,
    StoreDocument,
)
from collage_dsl.cli.failure import WRONG, CommandError, existing, writing
from collage_dsl.cli.output import show, write
from collage_dsl.cost import CostStore, Infeasible, Known, Measurement
from collage_dsl.cost.analytic import Rates
from collage_dsl.cost.damage import file_number
from collage_dsl.cost.database import DamagedStoreError
from collage_dsl.cost.exchange import document_of, exported, read
from collage_dsl.cost.expiry import expiry, now
from collage_dsl.cost.measurement import CODE, OWN, text_of_date
from collage_dsl.cost.spread import Spread
from collage_dsl.cost.store import default_store_path
from collage_dsl.measuring.machine import is_here
from collage_dsl.measuring.processor import cpu_name
from collage_dsl.printable import json_text
from collage_dsl.report.text import seconds, table
from collage_dsl.scratch import replacement

_SHORTEST = 1e-8
"""The shortest seconds of a kernel. What is shorter is of a byte, or a multiplication."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which contexts are asked for: globs of target and machine. Each may be left out."""

    target: str = "*"
    machine: str = "*"

    def __call__(self, known: Known) -> bool:
        context = known.context
        is_target = fnmatchcase(context.target, self.target)
        return is_target and fnmatchcase(context.machine, self.machine)


def show_costs(
    store: Path | None, wanted: Wanted, output_format: str, *, with_kernels: bool
) -> None:
    """Print what the store knows, by what it depends on."""
    with _opened(store) as costs:
        known = [each for each in costs.known() if wanted(each)]
        kernels = costs.measurements([k.context.key for k in known]) if with_kernels else []
        path = costs.path
    if output_format == "json":
        document = StoreDocument(
            store=str(path),
            contexts=[_document(each) for each in known],
            kernels=[document_of(each) for each in kernels] if with_kernels else None,
        )
        write(json_text(document.plain()))
        return
    show(_text(path, known, kernels))


def export_costs(store: Path | None, file: Path, wanted: Wanted) -> None:
    """Write costs as JSON."""
    with _opened(store) as costs:
        contexts = [each.context for each in costs.known() if wanted(each)]
        measurements = costs.measurements([each.key for each in contexts])
    with writing(file), replacement(file) as partial:
        partial.write_text(exported(contexts, measurements), "utf-8")
    show(f"wrote {_count(len(measurements))} to {file}\n")


def take_costs(store: Path | None, files: Sequence[Path]) -> None:
    """Take the costs of other stores, or of files that `export_costs` wrote, into the store."""
    path = store or default_store_path()
    found = [(file, *read(existing(file))) for file in files]
    with CostStore(path) as costs:
        for file, contexts, measurements in found:
            added = costs.add(contexts, measurements)
            kept = len(measurements) - added
            same = f"; {kept} known already, as new" if kept else ""
            show(f"{file}: {_count(added)} taken into {path}{same}\n")
            if other := sorted({m for c in contexts if (m := c.machine) and not is_here(m)}):
                show(f"  those of {', '.join(other)} are for such machines, and not used here\n")


def prune_costs(
    store: Path | None,
    wanted: Wanted,
    *,
    elsewhere: bool,
    outdated: bool,
    infeasible: bool,
    older_than: int | None,
    dry_run: bool,
) -> None:
    """Delete costs."""
    if not (elsewhere or outdated or infeasible or older_than is not None or wanted != Wanted()):
        raise CommandError(
            "say what to delete: --elsewhere, --outdated, --infeasible, --older-than, --target "
            "or --machine"
        )
    conditions: list[Callable[[Known], bool]] = [wanted]
    if elsewhere:
        conditions.append(lambda each: not is_here(each.context.machine))
    if outdated:
        from collage_dsl.measuring.key import is_outdated  # needs TVM

        conditions.append(lambda each: is_outdated(each.context))
    before = ""
    if older_than is not None:
        before = _days_ago(older_than)
    with _opened(store) as costs:
        known = [each for each in costs.known() if all(fits(each) for fits in conditions)]
        keys = [each.context.key for each in known]
        removed = costs.remove(keys, before=before, only_infeasible=infeasible, is_trial=dry_run)
        words = "would be deleted" if dry_run else "deleted"
        show(f"{costs.path}: {_count(removed)} {words}, {len(costs) - removed * dry_run} kept\n")


def _days_ago(days: int) -> str:
    """The date so many days ago, or the first date that there is."""
    every = (now() - datetime.min).days
    return text_of_date(now() - timedelta(days=min(days, every)))


def verify_costs(store: Path | None, *, repairs: bool) -> int:
    """Look for damage; the exit code is 1 if there is any that is not repaired."""
    path = existing_store(store)
    number = file_number(path)
    try:
        with CostStore(path, repairs=False) as costs:
            faults, count = costs.faults(), len(costs)
    except DamagedStoreError as error:
        if not CostStore.kind.begins(path):
            raise
        faults, count = [error.fault], 0
    if not faults:
        show(f"{path}: {_count(count)}, no damage\n")
        return 0
    show("".join(f"{path}: {fault}\n" for fault in faults[:20]))
    if not repairs:
        show("collage costs verify --repair sets the file aside, and keeps what can be read\n")
        return WRONG
    with CostStore(path) as costs:
        if file_number(path) == number:  # opening it has not repaired it
            costs.repair(faults[0])
        show(f"{path}: {_count(len(costs))} kept\n")
    return 0


def calibrate_costs(store: Path | None, output_format: str) -> None:
    """Measure what this machine does in a second, for the analytic source of costs."""
    from collage_dsl.measuring.calibration import calibrate  # needs TVM

    path = store or default_store_path()
    with CostStore(path) as costs:
        rows = [_rates(name, found) for name, found in calibrate(costs)]
    document = CalibrationDocument(store=str(path), machine=cpu_name(), backends=rows)
    head = ("backend", "multiplications", "from caches", "from memory", "launch", "cold", "")
    text = f"{document.machine}: one core, kept in {path}\n\n{table(head, map(_speeds, rows))}"
    answer(document, text, output_format)


def _rates(backend: str, found: Rates | str) -> RatesDocument:
    if isinstance(found, str):
        none = dict.fromkeys(("multiplications", "near", "far", "launch", "cold"))
        return RatesDocument(backend=backend, **none, reason=found)
    return RatesDocument(
        backend=backend,
        multiplications=1 / found.multiplication,
        near=1 / found.near,
        far=1 / found.far,
        launch=found.launch,
        cold=found.cold,
    )


def _speeds(document: RatesDocument) -> tuple[str, ...]:
    if document.reason is not None:
        return (document.backend, *[""] * 5, document.reason)
    rates = document.multiplications, document.near, document.far
    speeds = (f"{(rate or 0) / 1e9:.1f}" for rate in rates)
    per_second = (
        f"{speed} {unit}" for speed, unit in zip(speeds, ("G/s", "GB/s", "GB/s"), strict=True)
    )
    overheads = (seconds(each or 0) for each in (document.launch, document.cold))
    return (document.backend, *per_second, *overheads, "")


def _opened(store: Path | None) -> CostStore:
    return CostStore(existing_store(store))


def _text(path: Path, known: Sequence[Known], kernels: Sequence[Measurement]) -> str:
    parts = [f"{path}: {_count(sum(each.costs for each in known))}\n"]
    if known:
        head = (
            "target",
            "options",
            "costs",
            "infeasible",
            "tried again",
            "measured",
            "timed",
            "machine",
        )
        described = [each for each in known if each.context.target]
        parts.append(table((*head, "versions"), map(_row, described)))
        if others := sum(each.costs for each in known if not each.context.target):
            parts.append(f"{_count(others)} of older versions, which kept no description\n")
    if kernels:
        columns = ("measured", "cost", "from", "to", "times", "method", "tried again", "variant")
        rows = (
            (m.measured_at, _price(m), *_spread(m.spread), expiry(m), m.variant, m.label)
            for m in kernels
        )
        parts.append(table((*columns, "kernel"), rows))
    return "\n".join(parts)


def _row(known: Known) -> tuple[str, ...]:
    context = known.context
    dates = dict.fromkeys(date[:10] for date in (known.first, known.last))
    machine = context.machine
    return (
        context.target,
        ", ".join(f"{name} {value}" for name, value in _fields(context.options, CODE)),
        str(known.costs),
        _infeasible(known),
        known.retried[:10],
        " to ".join(dates),
        ", ".join(f"{name} {value}" for name, value in _fields(context.timed)),
        f"{machine} (here)" if is_here(machine) else machine,
        ", ".join(
            value if value.startswith(name) else f"{name} {value}"
            for name, value in _fields(context.versions, *OWN)
        ),
    )


def _fields(text: str, *left_out: str) -> Iterator[tuple[str, str]]:
    """The names and values of fields that are kept as JSON, but not those `left_out`."""
    for name, value in (json.loads(text) if text else {}).items():
        if name not in left_out:
            yield name, " ".join(map(str, value)) if isinstance(value, list) else str(value)


def _infeasible(known: Known) -> str:
    """How many kernels have no cost, and for which kinds of reasons: `3 (2 time-out, 1 crash)`."""
    kinds = ", ".join(f"{count} {kind}" for kind, count in known.kinds.items())
    return f"{known.infeasible} ({kinds})" if kinds else str(known.infeasible)


def _price(measurement: Measurement) -> str:
    cost = measurement.cost
    if isinstance(cost, Infeasible):
        return f"{cost.kind}: {cost.reason}"
    return f"{cost * 1e12:.1f} ps" if 0 < cost < _SHORTEST else seconds(cost)


def _spread(spread: Spread | None) -> tuple[str, ...]:
    if spread is None:
        return ("",) * 4
    at = "" if spread.speed == 1 else f", at {spread.speed:.0%} of the usual speed"
    return seconds(spread.low), seconds(spread.high), str(spread.count), spread.method + at


def _count(number: int) -> str:
    return f"{number} cost{'' if number == 1 else 's'}"


def _document(known: Known) -> KnownDocument:
    context = known.context
    return KnownDocument(
        context=context.key,
        machine=context.machine,
        here=is_here(context.machine),
        target=context.target,
        options=context.options,
        versions=context.versions,
        timed=context.timed,
        costs=known.costs,
        infeasible=known.infeasible,
        kinds={kind.value: count for kind, count in known.kinds.items()},
        retried=known.retried,
        first=known.first,
        last=known.last,
    )
