"""`collage records`: show, export and merge the schedules that tuning has tried."""

from collections.abc import Sequence
from pathlib import Path

from collage_dsl.cli.answer import answer
from collage_dsl.cli.failure import CommandError, existing, writing
from collage_dsl.cli.output import show
from collage_dsl.cost.records import Records, read_trials, records_path
from collage_dsl.cost.trials import export_trials
from collage_dsl.printable import printable
from collage_dsl.report.tuning import records_document, records_text


def show_records(records: Path | None, output_format: str, *, with_log: bool) -> None:
    """Show which functions have schedules, and each schedule if a log is asked for."""
    path = _existing(records)
    with Records(path) as known:
        document = records_document(str(path), known.every(), with_log=with_log)
    answer(document, records_text(document), output_format)


def export_records(records: Path | None, file: Path, *, only_best: bool) -> None:
    """Write schedules as JSON, all or only the fastest of each function."""
    with Records(_existing(records)) as known:
        trials = known.every()
        if only_best:
            best = {each.record.place: known.best(each.record.place) for each in trials}
            trials = [each for each in best.values() if each]
    with writing(file):
        export_trials(trials, file)
    show(f"wrote {_count(len(trials))} to {printable(str(file))}\n")


def merge_records(records: Path | None, files: Sequence[Path]) -> None:
    """Take the schedules of other files, all of them or none."""
    path = records or records_path()
    found = [(file, list(read_trials(existing(file)))) for file in files]
    with Records(path) as known:
        for file, trials in found:
            added = known.add(trials)
            shown = f"{printable(str(file))}: {_count(added)} taken into {printable(str(path))}"
            same = len(trials) - added
            show(f"{shown}{f'; {same} known already' if same else ''}\n")


def _existing(records: Path | None) -> Path:
    path = records or records_path()
    if not path.exists():
        raise CommandError(
            f"there is no file of tuning records {path}: `collage tune` writes one; name another "
            "with --records"
        )
    return existing(path)


def _count(number: int) -> str:
    return f"{number} schedule{'s' * (number != 1)}"
