"""
Time the language tools, in CPU seconds. Each run is a new process.

    python benchmarks/check.py [--json]

Needs only the installed package, and no TVM. Shows the best of several runs, and the most memory
of any run. The first run on a machine also makes the tables of the parser: it is shown by runs that
find no cache folder.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

SPECS = Path(__file__).parent.parent / "specs"
RUNS = 5

BLOCK = """\
pattern conv{0}(x, w: const, b?: const, r?) {{
  k = nn.conv2d(x, w) [groups == 1, data_layout == "NCHW"];
  s = add?(k, b);
  t = add?(s, r);
  y = (nn.relu | nn.gelu)?(t);
  where dtype(x) in [f32, bf16];
  where dim(w, 0) % 16 == 0 else "the blocked layout needs channels divisible by 16";
  yield y;
}}

rule library{0} = union(
  composite("lib.conv", dfpattern(conv{0})),
  op_call_by_kind(anchor),
);

target lib{0} on llvm {{
  compiler "lib";
  rules    combine_by_primitives(library{0}, using: [kind(anchor -> broadcast)], max_nodes: 4);
  limits   {{ max_depth 8; }}
  after    max_coalesce();
}}

"""


@dataclass(frozen=True, slots=True)
class Row:
    """What was run, the least CPU seconds of all runs, and the most megabytes."""

    what: str
    seconds: float
    megabytes: int


def spec(kilobytes: int) -> str:
    """A valid spec of about this length."""
    number = kilobytes * 1000 // len(BLOCK.format(1000))
    return "collage 1;\n\n" + "".join(map(BLOCK.format, range(number)))


def hundred_lines() -> str:
    """A valid spec of 100 lines, the last of which are comments."""
    text = "collage 1;\n\n" + "".join(map(BLOCK.format, range(4)))
    return text + "# A comment.\n" * (100 - text.count("\n"))


def measured(
    what: str, arguments: Sequence[str | Path], runs: int = RUNS, cache: str | None = None
) -> Row:
    """
    `cache` is the folder for caches, None for that of the user.

    Python's bytecode is kept, as it is of an installed package: pip makes it.
    """
    env = {**os.environ, **({"XDG_CACHE_HOME": cache} if cache else {})}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    found = [cpu(arguments, env) for _ in range(runs)]
    return Row(what, min(s for s, _ in found), max(m for _, m in found))


def cpu(arguments: Sequence[str | Path], env: Mapping[str, str]) -> tuple[float, int]:
    """The CPU seconds and megabytes of one run of `collage`."""
    command = [sys.executable, "-m", "collage_dsl.cli.main", *map(str, arguments)]
    with subprocess.Popen(
        command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        assert process.stderr is not None
        said = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1) or b"Traceback" in said:
        raise SystemExit(said.decode())
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss // 1024


def rows(folder: Path) -> Iterator[Row]:
    tiny = folder / "tiny.collage"
    tiny.write_text("collage 1;\n")
    yield measured("`collage --version`", ["--version"])
    yield measured("`collage check` of a file of one line", ["check", tiny])
    yield measured("the same, the first time", ["check", tiny], cache=os.devnull)
    yield measured("`collage check specs/`", ["check", SPECS])
    for kilobytes in (10, 100, 130):
        path = folder / f"{kilobytes}.collage"
        path.write_text(spec(kilobytes))
        yield measured(f"`collage check` of {kilobytes} KB", ["check", path])
        yield measured(f"`collage fmt --check` of {kilobytes} KB", ["fmt", "--check", path])
    many = folder / "many"
    many.mkdir()
    for at in range(1_000):
        (many / f"{at}.collage").write_text(hundred_lines())
    yield measured("`collage check` of 1 000 files of 100 lines", ["check", many], runs=2)


def main() -> None:
    parser = argparse.ArgumentParser(description="Time the language tools.")
    parser.add_argument("--json", action="store_true", help="print JSON")
    as_json = parser.parse_args().json
    with TemporaryDirectory() as folder:
        found = list(rows(Path(folder)))
    if as_json:
        print(json.dumps(list(map(asdict, found)), indent=2))
        return
    print("| what | CPU seconds | megabytes |\n|---|---:|---:|")
    for row in found:
        print(f"| {row.what} | {row.seconds:.2f} | {row.megabytes} |")


if __name__ == "__main__":
    main()
