"""`collage doctor`: look for missing packages, libraries, compilers, and faulty plug-ins."""

import os
import platform
import re
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec

from collage_dsl.cli.failure import CANNOT
from collage_dsl.cli.output import show, write
from collage_dsl.printable import json_text


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was examined; `advice` says what to do if something is wrong with it."""

    what: str
    found: str
    advice: str = ""


def examine(output_format: str) -> int:
    """Print all findings; the exit code is 2 if something is missing."""
    findings = [*_system(), *_packages(), _editor(), _compiler(), *_plug_ins()]
    if output_format == "json":
        rows = [asdict(finding) for finding in findings]
        write(json_text({"findings": rows}))
    else:
        show("".join(_line(finding) for finding in findings))
    return CANNOT if any(finding.advice for finding in findings) else 0


def _line(finding: Finding) -> str:
    mark = "!!" if finding.advice else "ok"
    advice = f"\n     {finding.advice}" if finding.advice else ""
    return f"{mark}  {finding.what}: {finding.found}{advice}\n"


def _system() -> Iterator[Finding]:
    yield Finding("collage_dsl", version("collage_dsl"))
    yield Finding("python", f"{platform.python_version()} on {platform.machine()}")
    yield Finding("cores", str(os.cpu_count()))


def _packages() -> Iterator[Finding]:
    """The requirements of the base install and of the extra `tvm`, in the order declared."""
    for line in requires("collage_dsl") or ():
        requirement, _, marker = line.partition(";")
        extra = re.search(r"extra == ['\"](\w+)['\"]", marker)
        parts = re.match(r"\s*([\w.-]+)(?:\[[^]]*\])?\s*(.*)", requirement)
        if parts and (extra is None or extra[1] == "tvm"):
            yield _package(parts[1], parts[2].strip(), extra is not None)


def _package(name: str, wanted: str, from_extra: bool) -> Finding:
    install = "'collage_dsl[tvm]'" if from_extra else "collage_dsl"
    try:
        installed = version(name)
    except PackageNotFoundError:
        needed = "to measure, compile and run models" if from_extra else "by every command"
        return Finding(name, "not installed", f"needed {needed}: pip install {install}")
    if wanted.startswith("==") and installed != wanted.removeprefix("=="):
        return Finding(name, installed, f"needs {wanted}: pip install {name}{wanted}")
    return Finding(name, installed)


def _editor() -> Finding:
    """The package for editors. It is optional, so no advice is given without it."""
    try:
        return Finding("pygls", version("pygls"))
    except PackageNotFoundError:
        advice = "pip install 'collage_dsl[lsp]'"
        return Finding("pygls", f"not installed; only `collage lsp` needs it: {advice}")


def _plug_ins() -> Iterator[Finding]:
    """What other packages declare. Without TVM it is not tried, since it may need TVM."""
    if find_spec("tvm") is None:
        return
    from collage_dsl.engine.plug_ins import plug_ins

    for each in plug_ins():
        yield Finding(f"{each.kind} {each.point.name}", each.point.value, each.fault)


def _compiler() -> Finding:
    command = os.environ.get("CXX") or "g++"
    try:
        found = shutil.which(shlex.split(command)[0]) if command.strip() else None
    except ValueError:  # a quotation without end
        found = None
    if found:
        return Finding("C++ compiler", found)
    return Finding(
        "C++ compiler",
        f"`{command}` not found",
        "needed for library kernels and to save models: apt install g++, or set CXX",
    )
