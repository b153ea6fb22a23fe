"""The command line. Each command imports what it needs, so that `collage check` starts fast."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from collage_dsl.cli.failure import Failure, explained

app = typer.Typer(
    name="collage",
    help="Say which operators to fuse and which library runs each kernel; let measured cost choose.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=True,
)


class Format(StrEnum):
    """How a command answers."""

    FULL = "full"
    JSON = "json"


class CheckFormat(StrEnum):
    """How `collage check` answers."""

    FULL = "full"
    CONCISE = "concise"
    JSON = "json"


ModelArgument = Annotated[Path, typer.Argument(metavar="MODEL", help="An ONNX file.")]
TargetOption = Annotated[
    list[str],
    typer.Option(
        "--target",
        "-t",
        metavar="FILE[#NAME]",
        help="A spec file, or one target in it; may be given several times. "
        "The name of a shipped spec (native, onnxruntime) stands for its file.",
    ),
]
FormatOption = Annotated[Format, typer.Option("--output-format", help="How to answer.")]
StoreOption = Annotated[
    Path | None,
    typer.Option("--store", help="Where measured costs are kept (a SQLite file)."),
]
ShapeOption = Annotated[
    list[str] | None,
    typer.Option("--shape", metavar="NAME=1,3,224,224", help="Fix the shape of an input."),
]
CoresOption = Annotated[
    int, typer.Option("--num-cores", min=1, help="Cores that a kernel may use.")
]
TimeoutOption = Annotated[
    float, typer.Option("--timeout", min=1, help="Seconds to build and time one kernel.")
]


@app.callback()
def _options(
    traceback: Annotated[
        bool, typer.Option("--traceback", help="Show where in the code a failure comes from.")
    ] = False,
) -> None:
    Failure.show_traceback = traceback


@app.command()
def check(
    files: Annotated[list[Path], typer.Argument(help="Spec files.")],
    output_format: Annotated[
        CheckFormat, typer.Option("--output-format", help="How to answer.")
    ] = CheckFormat.FULL,
) -> None:
    """Find everything wrong with spec files. Needs no TVM."""
    from collage_dsl.cli.check import check_files

    raise typer.Exit(check_files(files, output_format.value))


@app.command()
def candidates(
    model: ModelArgument,
    target: TargetOption,
    output_format: FormatOption = Format.FULL,
    shape: ShapeOption = None,
) -> None:
    """List the kernels that the rules of the targets propose for a model."""
    from collage_dsl.cli.models import show_candidates

    show_candidates(model, target, output_format.value, shape or [])


@app.command()
def plan(
    model: ModelArgument,
    target: TargetOption,
    costs: Annotated[
        Path | None, typer.Option("--costs", help="A table of costs, in place of measuring.")
    ] = None,
    output_format: FormatOption = Format.FULL,
    store: StoreOption = None,
    shape: ShapeOption = None,
    num_cores: CoresOption = 1,
    timeout: TimeoutOption = 60,
) -> None:
    """Choose the cheapest kernels for a model, and show them in execution order."""
    from collage_dsl.cli.models import Request, show_plan

    request = Request(model, tuple(target), tuple(shape or ()), store, num_cores, timeout)
    show_plan(request, costs, output_format.value)


@app.command(name="compile")
def compile_(
    model: ModelArgument,
    target: TargetOption,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Where to write.")],
    output_format: FormatOption = Format.FULL,
    store: StoreOption = None,
    shape: ShapeOption = None,
    num_cores: CoresOption = 1,
    timeout: TimeoutOption = 60,
) -> None:
    """Compile a model: measure, choose, build, race against each target alone, verify, save."""
    from collage_dsl.cli.models import Request, compile_to

    request = Request(model, tuple(target), tuple(shape or ()), store, num_cores, timeout)
    compile_to(request, output, output_format.value)


@app.command()
def bench(
    model: ModelArgument,
    target: TargetOption,
    output_format: FormatOption = Format.FULL,
    store: StoreOption = None,
    shape: ShapeOption = None,
    num_cores: CoresOption = 1,
    timeout: TimeoutOption = 60,
) -> None:
    """Compile a model and show how fast it runs, without keeping anything but the costs."""
    from collage_dsl.cli.models import Request, compile_to

    request = Request(model, tuple(target), tuple(shape or ()), store, num_cores, timeout)
    compile_to(request, None, output_format.value)


@app.command()
def run(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="What `collage compile` wrote.")],
    inputs: Annotated[
        Path | None,
        typer.Option("--inputs", metavar="FILE.npz", help="Inputs by name; else random ones."),
    ] = None,
    outputs: Annotated[
        Path | None, typer.Option("--outputs", metavar="FILE.npz", help="Where to keep outputs.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the random inputs.")] = 0,
    output_format: FormatOption = Format.FULL,
) -> None:
    """Run a compiled model."""
    from collage_dsl.cli.run import run_folder

    run_folder(folder, inputs, outputs, seed, output_format.value)


@app.command()
def demo(
    model: Annotated[
        Path | None, typer.Option("--model", help="An ONNX file, in place of SqueezeNet.")
    ] = None,
    output_format: FormatOption = Format.FULL,
    store: StoreOption = None,
    num_cores: CoresOption = 1,
) -> None:
    """Compile a real model with TVM and ONNX Runtime, and show what was gained."""
    from collage_dsl.cli.demo import run_demo

    run_demo(model, store, num_cores, output_format.value)


@app.command()
def doctor(output_format: FormatOption = Format.FULL) -> None:
    """Show versions, libraries and the compiler: what is missing, and how to get it."""
    from collage_dsl.cli.doctor import examine

    raise typer.Exit(examine(output_format.value))


def main() -> None:
    """Run the command line; the only place where exceptions become messages and exit codes."""
    try:
        app()
    except Exception as error:
        failure = explained(error)
        if Failure.show_traceback:
            raise
        sys.stderr.write(f"{failure.message}\n")
        sys.exit(failure.code)


if __name__ == "__main__":
    main()
