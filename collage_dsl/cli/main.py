"""
The commands and options of `collage`.

Each command imports what it needs, so that `collage check` starts fast.
"""

import atexit
import signal
import sys
from io import StringIO
from pathlib import Path
from traceback import format_exc
from typing import Any

import click

from collage_dsl.cli import parameters
from collage_dsl.cli.commands import Commands
from collage_dsl.cli.failure import CANNOT, explained
from collage_dsl.cli.formats import FAIL_LEVELS
from collage_dsl.cli.interrupt import SIGNALS, Ended, Interrupt
from collage_dsl.cli.output import ReaderGoneError, flush, open_standard_streams, tell
from collage_dsl.cli.stores import costs, records
from collage_dsl.cli.warned import show_ours
from collage_dsl.printable import printable


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="collage_dsl")
@click.option("--traceback", is_flag=True, help="Show where in the code a failure comes from.")
@click.pass_context
def app(context: click.Context, traceback: bool) -> None:
    """Check rules for operator fusion, and compile models by them at the lowest measured cost."""
    is_own_process = context.obj is main
    if is_own_process and context.invoked_subcommand in _BUILD:
        from collage_dsl.scratch import keep_temporary_files_together

        keep_temporary_files_together()


_BUILD = ("bench", "compile", "demo", "freeze", "plan", "run", "serve", "tune")
"""The commands that build kernels or run compilers, which make temporary files."""


@app.command()
@parameters.on_files
@parameters.check_format
@click.option(
    "--select",
    type=parameters.Codes(),
    metavar="CODES",
    default=(),
    help="Show only these warnings, such as W04,W0530; else as [tool.collage] says, or all.",
)
@click.option(
    "--ignore",
    type=parameters.Codes(),
    metavar="CODES",
    default=(),
    help="Do not show these warnings; else as [tool.collage] says. If --select has the same "
    "warning, the longer code counts.",
)
@click.option(
    "--fail-level",
    type=click.Choice(FAIL_LEVELS),
    help="What makes the exit code 1; else as [tool.collage] in pyproject.toml says, or error.",
)
@click.option("--exit-zero", is_flag=True, help="Exit with 0 whatever is found.")
@click.option(
    "--fix",
    is_flag=True,
    help="First change the files where a hint says exactly what to write.",
)
@parameters.search
@parameters.allow_extern
def check(files: tuple[Path, ...], stdin_filename: str, force_exclude: bool, **options: Any) -> int:
    """Find everything wrong with spec files. Needs no TVM."""
    from collage_dsl.cli.check import Options, check_files
    from collage_dsl.cli.files import Given

    given = Given(files, stdin_filename, force_exclude, reads_only=not options["fix"])
    return check_files(given, Options(**options))


@app.command()
@parameters.on_files
@click.option("--check", is_flag=True, help="Write nothing; name the files that would change.")
@click.option("--diff", is_flag=True, help="Write nothing; show what would change.")
def fmt(
    files: tuple[Path, ...], stdin_filename: str, force_exclude: bool, check: bool, diff: bool
) -> int:
    """Format spec files. Needs no TVM."""
    from collage_dsl.cli.files import Given
    from collage_dsl.cli.fmt import Mode, format_files

    if check and diff:
        raise click.UsageError("--check and --diff cannot be used together")
    mode = Mode.CHECK if check else Mode.DIFF if diff else Mode.WRITE
    return format_files(Given(files, stdin_filename, force_exclude), mode)


@app.command()
@parameters.on_files
@parameters.check_format
@parameters.search
@parameters.allow_extern
def test(
    files: tuple[Path, ...],
    stdin_filename: str,
    force_exclude: bool,
    output_format: str,
    search: tuple[Path, ...],
    allow_extern: bool,
) -> int:
    """Run the tests in spec files. Those that name a model or use a pattern table need TVM."""
    from collage_dsl.cli.files import Given
    from collage_dsl.cli.test import test_files

    given = Given(files, stdin_filename, force_exclude, reads_only=True)
    return test_files(given, output_format, search, allow_extern)


@app.command()
@click.argument(
    "old",
    help="A file or folder, or one of a git revision: main:specs. The name of a shipped spec "
    "stands for its file.",
)
@click.argument("new", help="The same, with the changes.")
@parameters.output_format
@parameters.search
@parameters.allow_extern
def breaking(
    old: str, new: str, output_format: str, search: tuple[Path, ...], allow_extern: bool
) -> int:
    """
    Say what the patterns and targets of NEW no longer match, and what they newly match.

    OLD and NEW are compared on the graphs of the tests of both. Exit code 1 where something is no
    longer matched. Needs no TVM.
    """
    from collage_dsl.cli.breaking import show_breaking

    return show_breaking(old, new, output_format, search, allow_extern)


@app.command()
@parameters.pattern
@parameters.output_format
def example(pattern: str, output_format: str) -> None:
    """
    Show a small graph that PATTERN matches, as a test for its file.

    Exit code 1 where no graph was found. Needs no TVM.
    """
    from collage_dsl.cli.example import show_example

    show_example(pattern, output_format)


@app.command()
@click.argument("code", required=False, help="The code of an error or warning: E0201.")
@parameters.output_format
def explain(code: str | None, output_format: str) -> None:
    """Say what CODE means, with a wrong and a right example; without CODE, list all codes."""
    from collage_dsl.cli.explain import explain_code

    explain_code(code, output_format)


@app.command()
@click.argument("glob", default="*", help="A name, or names with `*`: 'nn.conv*'. Default: all.")
@parameters.output_format
def ops(glob: str, output_format: str) -> None:
    """Show operators that patterns can name: operands, attributes, kind. Needs no TVM."""
    from collage_dsl.cli.ops import show_operators

    show_operators(glob, output_format)


@app.command()
@click.argument(
    "file",
    type=parameters.InSpec(),
    metavar="FILE[#NAME]",
    help="JSON or YAML if its name ends in .json, .yaml or .yml; else a spec file, or one target "
    "in it. The name of a shipped spec stands for its file, and `-` for standard input.",
)
@click.option(
    "--to",
    "form",
    type=click.Choice(["json", "yaml", "collage"]),
    required=True,
    help="The form to write on standard output.",
)
@click.option(
    "--stdin-filename",
    metavar="NAME",
    default="<stdin>",
    show_default=True,
    help="The name of the text on standard input, where FILE is `-`. Its ending tells the form.",
)
@parameters.allow_extern
def convert(file: str, form: str, stdin_filename: str, allow_extern: bool) -> None:
    """Write the targets of FILE as JSON, YAML or canonical text. Needs no TVM."""
    from collage_dsl.cli.convert import convert_file

    convert_file(file, form, stdin_filename, allow_extern)


@app.command()
@click.argument(
    "target",
    type=parameters.InSpec(),
    metavar="FILE[#NAME]",
    help="A target of a spec file; FILE if it has only one. The name of a shipped spec stands for "
    "its file, and `-` for standard input.",
)
@parameters.allow_extern
def embed(target: str, allow_extern: bool) -> None:
    """Write the TVM target of a spec as JSON, with the spec inside."""
    from collage_dsl.cli.embed import embed_spec

    embed_spec(target, allow_extern)


@app.command()
@click.argument(
    "target",
    metavar="TARGET.json",
    type=parameters.FILE,
    help="What `collage embed` wrote, or the JSON of the `export()` of a TVM target.",
)
def extract(target: Path) -> int:
    """Write the spec that is inside a TVM target; of several specs, a file with all of them."""
    from collage_dsl.cli.embed import extract_spec

    return extract_spec(target)


@app.command()
@parameters.model_or_graph
@parameters.targets
@click.option(
    "--at", metavar="NODE", help="Only kernels with this node, by its name or its ONNX node's."
)
@parameters.output_format
@parameters.shapes
@parameters.allow_extern
@parameters.max_candidates
def candidates(
    model: Path,
    targets: tuple[str, ...],
    output_format: str,
    shapes: tuple[str, ...],
    allow_extern: bool,
    max_candidates: int | None,
    at: str | None,
) -> None:
    """List the kernels that the rules of the targets propose for a model."""
    from collage_dsl.cli.candidates import show_candidates

    show_candidates(model, targets, output_format, shapes, allow_extern, max_candidates, at)


@app.command()
@parameters.model_or_graph
@click.option("--at", metavar="NODE", help="Show only this node, by its name or its ONNX node's.")
@click.option(
    "--around",
    cls=parameters.OptionWith,
    needs="at",
    type=click.IntRange(min=0),
    default=1,
    show_default=True,
    help="How many steps around the node of --at are shown.",
)
@click.option(
    "--picture", metavar="FILE.svg", type=parameters.NEW_PICTURE, help="Draw the graph, as SVG."
)
@parameters.output_format
@parameters.shapes
def show(
    model: Path,
    at: str | None,
    around: int,
    picture: Path | None,
    output_format: str,
    shapes: tuple[str, ...],
) -> None:
    """Show the graph that patterns see, and the ONNX nodes that it came from."""
    from collage_dsl.cli.show import show_graph

    show_graph(model, at, around, output_format, shapes, picture)


@app.command()
@parameters.model_or_graph
@parameters.targets
@parameters.output_format
@parameters.shapes
@parameters.store
@parameters.num_cores
@parameters.known_costs
@parameters.allow_extern
def coverage(
    model: Path,
    targets: tuple[str, ...],
    output_format: str,
    shapes: tuple[str, ...],
    store: Path | None,
    num_cores: int,
    costs: tuple[str, ...],
    allow_extern: bool,
) -> None:
    """
    Count the operators that each target can run, and say why not the others.

    If the costs of kernels are known, it also says how much of the time of the model each target
    can take. Nothing is measured.
    """
    from collage_dsl.cli.coverage import Costs, show_coverage

    known = Costs(costs, store, num_cores)
    show_coverage(model, targets, output_format, shapes, allow_extern, known)


@app.command()
@parameters.pattern
@parameters.model_or_graph
@click.option(
    "--at",
    "node",
    metavar="NODE",
    required=True,
    help="The node to ask about, by its name or its ONNX node's.",
)
@parameters.output_format
@parameters.shapes
@parameters.allow_extern
def why(
    pattern: str,
    model: Path,
    node: str,
    output_format: str,
    shapes: tuple[str, ...],
    allow_extern: bool,
) -> int:
    """
    Say why PATTERN does not match at a node of MODEL, or how it does.

    Exit code 1 where it does not match.
    """
    from collage_dsl.cli.why import explain_match

    return explain_match(pattern, model, node, output_format, shapes, allow_extern)


@app.command()
@parameters.pattern
@parameters.model_or_graph
@click.option(
    "--top",
    type=click.IntRange(min=1),
    default=10,
    show_default=True,
    help="How many of the nearest misses to show.",
)
@parameters.output_format
@parameters.shapes
@parameters.allow_extern
def near(
    pattern: str,
    model: Path,
    top: int,
    output_format: str,
    shapes: tuple[str, ...],
    allow_extern: bool,
) -> None:
    """Show the nodes of MODEL at which PATTERN nearly matches, and what fails there."""
    from collage_dsl.cli.why import show_near

    show_near(pattern, model, top, output_format, shapes, allow_extern)


@app.command()
@parameters.compiles
@parameters.inputs
@click.option(
    "--picture",
    metavar="FILE.svg",
    type=parameters.NEW_PICTURE,
    help="Draw the model with its kernels, as SVG.",
)
def plan(picture: Path | None, output_format: str, **request: Any) -> None:
    """Choose the cheapest kernels for a model, and show them in execution order."""
    from collage_dsl.cli.models import Request, show_plan

    show_plan(Request(**request), output_format, picture)


@app.command(name="compile")
@parameters.compiles
@parameters.races
@click.option(
    "--output",
    "-o",
    metavar="DIR",
    required=True,
    type=parameters.FILE,
    help="The folder to write.",
)
@click.option(
    "--frozen",
    metavar="FILE",
    type=parameters.FILE,
    help="Build the kernels that `collage freeze` wrote to this file: measure and race nothing.",
)
def compile_(output: Path, output_format: str, **request: Any) -> None:
    """Choose the cheapest kernels, build them, race against each target alone, verify, save."""
    from collage_dsl.cli.models import Request, compile_to

    compile_to(Request(**request), output, output_format)


@app.command()
@parameters.compiles
@parameters.races
@click.option(
    "--output",
    "-o",
    metavar="FILE",
    required=True,
    type=parameters.NEW_FILE,
    help="The lock to write.",
)
def freeze(output: Path, output_format: str, **request: Any) -> None:
    """Compile a model, and write which kernels were chosen, for `compile --frozen`."""
    from collage_dsl.cli.lock import freeze_to
    from collage_dsl.cli.models import Request

    freeze_to(Request(**request), output, output_format)


@app.command()
@parameters.compiles
@parameters.races
def bench(output_format: str, **request: Any) -> None:
    """Compile a model and show how fast it runs; save only the costs of kernels."""
    from collage_dsl.cli.models import Request, compile_to

    compile_to(Request(**request), None, output_format)


@app.command()
@parameters.compiles
@click.option(
    "--at",
    metavar="NODE",
    help="Tune only the kernel with this node (its name, or that of its ONNX node).",
)
@click.option(
    "--trials",
    type=click.IntRange(min=1),
    help="How many schedules are tried for each kernel. Default: as its target says, or 64.",
)
@parameters.tuning_budget
def tune(at: str | None, trials: int | None, output_format: str, **request: Any) -> None:
    """
    Search for faster schedules of the kernels that TVM makes, and keep them for other commands.

    Tunes the kernels that may make the model faster, the most promising first. With --at, only the
    kernel that the cheapest plan has there. After an interruption, the same command continues.
    """
    from collage_dsl.cli.models import Request
    from collage_dsl.cli.tune import show_tuned

    show_tuned(Request(**request), at, trials, output_format)


@app.command()
@click.argument(
    "lock", metavar="FILE", type=parameters.FILE, help="The lock that `collage freeze` wrote."
)
@parameters.model
@parameters.targets
@parameters.output_format
@parameters.shapes
@parameters.sizes
@parameters.num_cores
@parameters.strategy
@parameters.allow_extern
def replay(lock: Path, output_format: str, **request: Any) -> int:
    """
    Search again with the costs in a lock, and compare the plan with its plan.

    Nothing is measured. Exit code 1 where other kernels are found.
    """
    from collage_dsl.cli.lock import show_replay
    from collage_dsl.cli.models import Request

    return show_replay(Request(**request), lock, output_format)


@app.command()
@click.argument("folder", metavar="DIR", type=parameters.FILE, help="What `collage compile` wrote.")
@click.option(
    "--inputs", metavar="FILE.npz", type=parameters.FILE, help="The inputs, by name; else random."
)
@click.option(
    "--outputs",
    metavar="FILE.npz",
    type=parameters.NEW_ARRAYS,
    help="The file to write the outputs to.",
)
@click.option(
    "--seed",
    cls=parameters.OptionWithout,
    without="inputs",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="The seed of random inputs.",
)
@click.option(
    "--sizes",
    cls=parameters.OptionWithout,
    without="inputs",
    metavar="NAME=4",
    multiple=True,
    help="The size of a dimension with a name in random inputs. Default: that at which the model "
    "was timed as it was compiled. May be given several times.",
)
@parameters.output_format
def run(
    folder: Path,
    inputs: Path | None,
    outputs: Path | None,
    seed: int,
    sizes: tuple[str, ...],
    output_format: str,
) -> None:
    """Run a compiled model."""
    from collage_dsl.cli.run import run_folder

    run_folder(folder, inputs, outputs, seed, output_format, sizes)


@app.command()
@click.argument("folder", metavar="DIR", type=parameters.FILE, help="What `collage compile` wrote.")
@parameters.output_format
def report(folder: Path, output_format: str) -> None:
    """Show again what `compile` found: the plans and their times. Runs nothing, needs no TVM."""
    from collage_dsl.cli.report import show_report

    show_report(folder, output_format)


@app.command()
@click.option(
    "--model", metavar="FILE.onnx", type=parameters.FILE, help="A model, in place of AlexNet."
)
@parameters.store
@parameters.num_cores
@parameters.output_format
def demo(model: Path | None, store: Path | None, num_cores: int, output_format: str) -> None:
    """Compile AlexNet with random weights for TVM and ONNX Runtime, and show the times."""
    from collage_dsl.cli.demo import run_demo

    run_demo(model, store, num_cores, output_format)


@app.command()
@click.option(
    "--tracker",
    type=parameters.TEXT,
    metavar="HOST:PORT",
    required=True,
    help="The tracker that lends this machine.",
)
@click.option(
    "--key",
    type=parameters.TEXT,
    required=True,
    help="The key that clients ask for, such as the name of the processor.",
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="The address to listen on; 0.0.0.0 for all. Anyone who reaches it can run code here.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    show_default=True,
    help="The port to listen on; 0 for any that is free.",
)
@click.option(
    "--address",
    default="",
    help="The address at which clients reach this machine, if the tracker sees another one.",
)
def serve(tracker: str, key: str, host: str, port: int, address: str) -> None:
    """Let a tracker of TVM lend this machine, to time kernels: docs/fleet.md."""
    from collage_dsl.cli.serve import serve_machine

    serve_machine(tracker, key, host, port, address)


@app.command()
@parameters.output_format
def doctor(output_format: str) -> int:
    """Show versions, libraries and the compiler: what is missing, and how to get it."""
    from collage_dsl.cli.doctor import examine

    return examine(output_format)


@app.command()
@click.option("--stdio", is_flag=True, help="Ignored: editors give it, and there is no other way.")
def lsp(stdio: bool) -> int:
    """Serve an editor: findings, completion, definitions, renaming. See docs/editor.md."""
    from collage_dsl.cli.lsp import serve

    return serve()


app.add_command(costs)
app.add_command(records)


def main() -> None:
    """Run the command line; the only place where exceptions become messages and exit codes."""
    open_standard_streams()
    show_ours()
    # What remains when Python ends is to clean up.
    for each in SIGNALS:
        atexit.register(signal.signal, each, signal.SIG_IGN)
    interrupt = Interrupt()
    try:
        with interrupt:
            code = _code(interrupt)
    except Ended:  # as it began, or as it was over
        interrupt.say()
        code = interrupt.code
    sys.exit(code)


def _code(interrupt: Interrupt) -> int:
    try:
        code = app(standalone_mode=False, obj=main) or 0
        flush()
        return code
    except click.ClickException as error:
        tell(_usage(error))
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        interrupt.say()
        return interrupt.code
    except ReaderGoneError:
        return CANNOT
    except Exception as error:
        if interrupt.happened:  # A library may turn a KeyboardInterrupt into another exception.
            interrupt.say()
            return interrupt.code
        failure = explained(error)
        tell(format_exc() if "--traceback" in sys.argv else failure.message)
        return failure.code


def _usage(error: click.ClickException) -> str:
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        return error.format_message()
    shown, message = StringIO(), error.format_message()
    error.show(shown)
    # The choices of a missing option are on lines of their own.
    one_line = " ".join(message.split())
    return shown.getvalue().rstrip("\n").replace(message, printable(one_line))


if __name__ == "__main__":
    main()
