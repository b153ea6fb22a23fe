"""The arguments and options that commands share."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from collage_dsl.cli.durations import Duration, Number
from collage_dsl.cli.failure import writing
from collage_dsl.cli.formats import FORMATS
from collage_dsl.cli.stdin import NO_NAME
from collage_dsl.scratch import check_file, check_folder

_Command = TypeVar("_Command", bound=Callable[..., Any])


class _Given(click.Path):
    """
    A path to read. An empty one, as of a variable of the shell that is not set, is refused, and so
    is `-` where standard input is not read.
    """

    reads_stdin = False

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail(_EMPTY, param, ctx)
        if value == "-" and not self.reads_stdin:
            self.fail(_NO_STDIN, param, ctx)
        return super().convert(value, param, ctx)


class _GivenOrStdin(_Given):
    reads_stdin = True


_EMPTY = "the path is empty"
_NO_STDIN = (
    "`-` does not stand for standard input or output here: give a path (`./-` for a file of this "
    "name)"
)

FILE = _Given(path_type=Path)
FILE_OR_STDIN = _GivenOrStdin(path_type=Path)


class InSpec(click.ParamType[str]):
    """
    A spec file, or what has a name in it: `FILE#NAME`. FILE may be that of a shipped spec, or `-`,
    which is called `<stdin>` from here on.
    """

    name = "FILE[#NAME]"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value == "":
            self.fail(_EMPTY, param, ctx)
        return NO_NAME if value == "-" else value

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return FILE.shell_complete(ctx, param, incomplete)


class Written(click.ParamType[Path]):
    """
    A path to write to. It is refused before the command does anything else. `is_possible` raises
    OSError; a name without the `suffix` gets it.
    """

    def __init__(self, is_possible: Callable[[Path], object], name: str, suffix: str = "") -> None:
        self.name = name
        self._is_possible = is_possible
        self._suffix = suffix

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        if value == "":
            self.fail(_EMPTY, param, ctx)
        path = Path(value)
        if path.suffix != self._suffix and self._suffix:
            path = Path(f"{path}{self._suffix}")
        if not (ctx and ctx.resilient_parsing):  # as for completion, which writes nothing
            with writing(path):
                self._is_possible(path)
        return path

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return FILE.shell_complete(ctx, param, incomplete)


class _NewPicture(Written):
    """A picture to write. A name with the suffix of another format is refused."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        if Path(value).suffix.lower() not in ("", ".svg"):
            self.fail(f"pictures are written as SVG: the name {value} must end in .svg", param, ctx)
        return super().convert(value, param, ctx)


NEW_FILE = Written(check_file, "file")
NEW_PICTURE = _NewPicture(check_file, "file")
NEW_FOLDER = Written(check_folder, "folder")
NEW_ARRAYS = Written(check_file, "file", ".npz")


class OptionWith(click.Option):
    """An option that says something about another one, without which it is refused."""

    def __init__(self, *names: Any, needs: str, **settings: Any) -> None:
        super().__init__(*names, **settings)
        self._needs = needs

    def handle_parse_result(
        self, ctx: click.Context, opts: Mapping[str, Any], args: list[str]
    ) -> tuple[Any, list[str]]:
        if self.name in opts and self._needs not in opts:
            raise click.UsageError(f"{self.opts[0]} needs --{self._needs}", ctx)
        return super().handle_parse_result(ctx, opts, args)


class OptionWithout(click.Option):
    """An option that says nothing if another one is given, with which it is refused."""

    def __init__(self, *names: Any, without: str, **settings: Any) -> None:
        super().__init__(*names, **settings)
        self._without = without

    def handle_parse_result(
        self, ctx: click.Context, opts: Mapping[str, Any], args: list[str]
    ) -> tuple[Any, list[str]]:
        if self.name in opts and self._without in opts:
            names = f"{self.opts[0]} and --{self._without}"
            raise click.UsageError(f"{names} cannot be used together", ctx)
        return super().handle_parse_result(ctx, opts, args)


class _Text(click.ParamType[str]):
    """A name or an address. An empty one, as of a variable that is not set, is refused."""

    name = "TEXT"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not value.strip():
            self.fail("it is empty", param, ctx)
        return value


TEXT = _Text()


class _StrategyName(click.ParamType[str]):
    """The name of a search strategy, ours or that of an installed package."""

    name = "NAME"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from collage_dsl.search import UnknownStrategyError, strategy_names

        if value not in (known := strategy_names()):
            self.fail(str(UnknownStrategyError(value, known)), param, ctx)
        return value

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        from collage_dsl.search import strategy_names

        return [CompletionItem(name) for name in strategy_names() if name.startswith(incomplete)]


output_format = click.option(
    "--output-format",
    type=click.Choice(["full", "json"]),
    default="full",
    show_default=True,
    help="How to answer.",
)
model = click.argument(
    "model",
    type=FILE,
    help="An ONNX file, or the name of a light model of the onnx package: alexnet.",
)
model_or_graph = click.argument(
    "model",
    type=FILE,
    help="An ONNX file, a graph in the text notation (FILE.graph), or the name of a light "
    "model of the onnx package: alexnet.",
)
pattern = click.argument(
    "pattern",
    type=InSpec(),
    metavar="FILE[#PATTERN]",
    help="A pattern of a spec file; FILE if it has only one. The name of a shipped spec stands for "
    "its file, and `-` for standard input.",
)
targets = click.option(
    "--target",
    "-t",
    "targets",
    type=InSpec(),
    metavar="FILE[#NAME]",
    multiple=True,
    required=True,
    help="A spec file, or one target in it; may be given several times. The name of a shipped "
    "spec (native, onnxruntime) stands for its file, and `-` for standard input.",
)
search = click.option(
    "--path",
    "search",
    metavar="DIR",
    multiple=True,
    type=_Given(exists=True, file_okay=False, path_type=Path),
    help="One more folder in which imported files are looked for; may be given several times.",
)
shapes = click.option(
    "--shape",
    "shapes",
    metavar="NAME=1,3,224,224",
    multiple=True,
    help="The shape of an input, in place of the model's; a name is for any size (n,3,224,224). "
    "May be given several times.",
)
sizes = click.option(
    "--sizes",
    metavar="NAME=1,4,8",
    multiple=True,
    help="Sizes of a dimension with a name that get plans of their own, besides the one for any "
    "size; several options make each combination.",
)
store = click.option(
    "--store",
    metavar="FILE",
    type=FILE,
    help="The file of measured costs. Default: costs.sqlite in the folder collage_dsl of "
    "$XDG_CACHE_HOME, or of ~/.cache.",
)
records = click.option(
    "--records",
    metavar="FILE",
    type=FILE,
    help="The file of the schedules that tuning has tried. Default: costs.tuned.sqlite beside the "
    "costs.",
)
tuning_budget = click.option(
    "--tuning-budget",
    type=Duration(),
    default=float("inf"),
    metavar="TIME",
    help="The longest time to tune kernels: 90s, 10m, 1h. Default: no limit.",
)


def _costs(default: str, other: str) -> Callable[[_Command], _Command]:
    return click.option(
        "--costs",
        type=_Given(),
        metavar="SOURCE",
        multiple=True,
        help="Where the costs of kernels come from: a cost table, a store (.sqlite), "
        f"`{default}` (the default), {other}, or a source that a package declares. Several are "
        "asked in turn: docs/costs.md.",
    )


costs = _costs("measured", "`recorded`, `analytic`")
known_costs = _costs("recorded", "`analytic`")
num_cores = click.option(
    "--num-cores",
    type=click.IntRange(min=1, max=1_000_000),
    default=1,
    show_default=True,
    help="Cores that a kernel may use, where a target does not say.",
)
timeout = click.option(
    "--timeout",
    type=Number(min=1, max=1_000_000),
    metavar="SECONDS",
    default=60,
    show_default=True,
    help="Seconds that one kernel may take to be built and timed, where its target does not say.",
)
memory = click.option(
    "--memory",
    type=Number(min=0.1, max=1_000_000),
    metavar="GIB",
    help="GiB of memory that one kernel may take while it is built and timed. Default: half of the "
    "memory of the machine.",
)
strategy = click.option(
    "--strategy",
    type=_StrategyName(),
    default="auto",
    show_default=True,
    help="How to search for the cheapest plan: auto, dijkstra, milp, beam, exhaustive, or the name "
    "of a strategy of an installed package: docs/search.md.",
)
prove = click.option(
    "--prove",
    is_flag=True,
    help="Measure all kernels that can make a plan cheaper. Without this, those that will probably "
    "not, judged by the kernels that were measured, are not measured: docs/search.md.",
)

max_candidates = click.option(
    "--max-candidates",
    type=click.IntRange(min=1),
    help="How many candidates a rule may add, where its target does not say. Default: 10000, and "
    "10 more for each node of the model.",
)
allow_extern = click.option(
    "--allow-extern",
    is_flag=True,
    help="Let specs import and run Python code: predicates that are declared extern, and modules "
    "that register pattern tables.",
)


tracker = click.option(
    "--tracker",
    cls=OptionWith,
    needs="key",
    type=TEXT,
    metavar="HOST:PORT",
    help="Time kernels on devices that this tracker of TVM lends: docs/fleet.md.",
)
key = click.option(
    "--key",
    cls=OptionWith,
    needs="tracker",
    type=TEXT,
    help="The key under which the tracker offers these devices.",
)
scheduler = click.option(
    "--scheduler",
    type=TEXT,
    metavar="ADDRESS",
    help="Build kernels on the Dask cluster with this scheduler: tcp://10.0.0.1:8786.",
)

inputs = click.option(
    "--inputs",
    metavar="FILE.npz",
    type=FILE,
    help="Real inputs by name, to time, race and verify kernels on; else random.",
)


def compiles(command: _Command) -> _Command:
    """Add the arguments that all commands which measure kernels share."""
    options = (
        scheduler,
        key,
        tracker,
        allow_extern,
        max_candidates,
        prove,
        strategy,
        timeout,
        memory,
        num_cores,
        records,
        store,
        costs,
        shapes,
        output_format,
    )
    for decorate in (*options, targets, model):
        command = decorate(command)
    return command


def races(command: _Command) -> _Command:
    """Add the options of the commands that build and run plans."""
    options = (
        click.option(
            "--seed",
            cls=OptionWith,
            needs="refine",
            type=click.IntRange(min=0),
            default=0,
            show_default=True,
            help="The seed for the plans of --refine.",
        ),
        click.option(
            "--refine-state",
            cls=OptionWith,
            needs="refine",
            metavar="DIR",
            type=NEW_FOLDER,
            help="Where --refine keeps the plans that it ran. Default: `refinements` beside the "
            "store.",
        ),
        click.option(
            "--budget",
            cls=OptionWith,
            needs="refine",
            type=Duration(),
            metavar="TIME",
            default="10m",
            show_default=True,
            help="How long --refine runs plans: 90s, 10m, 1h.",
        ),
        click.option(
            "--refine",
            type=click.Choice(["evolutionary"]),
            help="After the race, make more plans from the fastest ones, and run them.",
        ),
        click.option(
            "--plans",
            type=click.IntRange(1, 16),
            default=3,
            show_default=True,
            help="How many plans over all targets are raced, at most.",
        ),
        tuning_budget,
        inputs,
        sizes,
    )
    for decorate in options:
        command = decorate(command)
    return command


def on_files(command: _Command) -> _Command:
    """Add the arguments that all commands on spec files share."""
    options = (
        click.option(
            "--force-exclude",
            is_flag=True,
            help="Leave out what [tool.collage] excludes, even if FILES names it.",
        ),
        click.option(
            "--stdin-filename",
            metavar="NAME",
            default="<stdin>",
            show_default=True,
            help="The name of the text on standard input, which is `-` among FILES. Settings and "
            "imports are found from its folder.",
        ),
        click.argument(
            "files",
            nargs=-1,
            required=True,
            type=FILE_OR_STDIN,
            help="Spec files, and folders with spec files; `-` is standard input.",
        ),
    )
    for decorate in options:
        command = decorate(command)
    return command


check_format = click.option(
    "--output-format",
    type=click.Choice(FORMATS),
    default="full",
    show_default=True,
    help="How to answer.",
)


class Codes(click.ParamType[tuple[str, ...]]):
    """Codes of warnings or their beginnings, with commas between them."""

    name = "CODES"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        from collage_dsl.cli.config import checked_codes

        if isinstance(value, tuple):
            return value
        place = param.opts[0] if param else self.name
        return checked_codes(place, (code.strip() for code in value.split(",")))
