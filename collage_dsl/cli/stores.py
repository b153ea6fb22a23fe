"""
The commands of `collage costs` and `collage records`, and their options: on costs that were
measured, and on schedules that were tried.
"""

from pathlib import Path
from typing import Any

import click

from collage_dsl.cli import parameters
from collage_dsl.cli.commands import Commands


@click.group(cls=Commands)
def costs() -> None:
    """Show, copy, delete and check the costs that were measured; calibrate estimates."""


_of_target = click.option(
    "--target",
    metavar="GLOB",
    default="*",
    help="Only costs of targets that fit this glob, such as llvm.",
)
_of_machine = click.option(
    "--machine", metavar="GLOB", default="*", help="Only costs of machines that fit this glob."
)


@costs.command(name="show")
@_of_target
@_of_machine
@click.option("--kernels", is_flag=True, help="List each cost too.")
@parameters.store
@parameters.output_format
def costs_show(
    target: str, machine: str, kernels: bool, store: Path | None, output_format: str
) -> None:
    """Count the costs, by target, machine, versions and way of timing."""
    from collage_dsl.cli.costs import Wanted, show_costs

    show_costs(store, Wanted(target, machine), output_format, with_kernels=kernels)


@costs.command(name="calibrate")
@parameters.store
@parameters.output_format
@click.pass_context
def costs_calibrate(context: click.Context, store: Path | None, output_format: str) -> None:
    """
    Measure how fast this machine is, for the estimates of `--costs analytic`.

    A few kernels of each backend are timed. Once for each machine is enough.
    """
    from collage_dsl.cli.costs import calibrate_costs
    from collage_dsl.scratch import keep_temporary_files_together

    if context.obj:  # a process of its own
        keep_temporary_files_together()
    calibrate_costs(store, output_format)


@costs.command(name="export")
@click.argument("file", type=parameters.NEW_FILE, help="The file to write.")
@_of_target
@_of_machine
@parameters.store
def costs_export(file: Path, target: str, machine: str, store: Path | None) -> None:
    """Write costs to FILE, as JSON."""
    from collage_dsl.cli.costs import Wanted, export_costs

    export_costs(store, file, Wanted(target, machine))


@costs.command(name="import")
@click.argument(
    "files",
    nargs=-1,
    required=True,
    type=parameters.FILE,
    help="Files that `collage costs export` wrote.",
)
@parameters.store
def costs_import(files: tuple[Path, ...], store: Path | None) -> None:
    """Add the costs of FILES to the store."""
    from collage_dsl.cli.costs import take_costs

    take_costs(store, files)


@costs.command(name="merge")
@click.argument(
    "stores", nargs=-1, required=True, type=parameters.FILE, help="Files of other stores."
)
@parameters.store
def costs_merge(stores: tuple[Path, ...], store: Path | None) -> None:
    """Add the costs of STORES to the store."""
    from collage_dsl.cli.costs import take_costs

    take_costs(store, stores)


@costs.command(name="prune")
@_of_target
@_of_machine
@click.option("--elsewhere", is_flag=True, help="Only costs of other machines.")
@click.option("--outdated", is_flag=True, help="Only costs of other versions.")
@click.option("--infeasible", is_flag=True, help="Only kernels that could not run.")
@click.option(
    "--older-than",
    metavar="DAYS",
    type=click.IntRange(min=0),
    help="Only costs that are older than so many days.",
)
@click.option("--dry-run", is_flag=True, help="Delete nothing; say how many it would be.")
@parameters.store
def costs_prune(target: str, machine: str, store: Path | None, **options: Any) -> None:
    """Delete costs: those that fit all of the options."""
    from collage_dsl.cli.costs import Wanted, prune_costs

    prune_costs(store, Wanted(target, machine), **options)


@costs.command(name="verify")
@click.option("--repair", "repairs", is_flag=True, help="Make a new store of what can be read.")
@parameters.store
def costs_verify(repairs: bool, store: Path | None) -> int:
    """Look for damage in the store. Exit code 1 if there is any."""
    from collage_dsl.cli.costs import verify_costs

    return verify_costs(store, repairs=repairs)


@click.group(cls=Commands)
def records() -> None:
    """Show, export and merge the schedules that tuning has tried."""


@records.command(name="show")
@click.option("--log", "with_log", is_flag=True, help="List each schedule too.")
@parameters.records
@parameters.output_format
def records_show(with_log: bool, records: Path | None, output_format: str) -> None:
    """List the functions that were tuned, and their targets."""
    from collage_dsl.cli.records import show_records

    show_records(records, output_format, with_log=with_log)


@records.command(name="export")
@click.argument("file", type=parameters.NEW_FILE, help="The file to write.")
@click.option(
    "--best", "only_best", is_flag=True, help="Only the fastest schedule of each function."
)
@parameters.records
def records_export(file: Path, only_best: bool, records: Path | None) -> None:
    """Write schedules to FILE, as JSON."""
    from collage_dsl.cli.records import export_records

    export_records(records, file, only_best=only_best)


@records.command(name="merge")
@click.argument(
    "files",
    nargs=-1,
    required=True,
    type=parameters.FILE,
    help="Tuning records, or files that `collage records export` wrote.",
)
@parameters.records
def records_merge(files: tuple[Path, ...], records: Path | None) -> None:
    """Add the schedules of FILES to the records."""
    from collage_dsl.cli.records import merge_records

    merge_records(records, files)
