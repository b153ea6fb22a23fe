"""Describe the machine that kernels are built for and timed on."""

import json
import platform
from dataclasses import asdict, dataclass, field, fields, replace
from importlib.metadata import version

import tvm

from collage_dsl.backends.instructions import hidden, host_cpu
from collage_dsl.backends.registry import GPU_KINDS
from collage_dsl.backends.runtime.cores import processors
from collage_dsl.graph import Toolchain, items_of
from collage_dsl.measuring.memory import default_limit
from collage_dsl.measuring.processor import cpu_name, last_level_cache_bytes

METHOD = 8
"""The version of our way of measuring; costs of another version are not reused."""


@dataclass(frozen=True, slots=True)
class Machine:
    """
    What a cost depends on besides the kernel and its target. Kernels cost the same on equal
    machines. `processor` is LLVM's name for it, `hidden` names the instructions of such a processor
    that are not there (`-avx512f,-avx512bw`), `cache` the bytes of the last-level cache, `tvm` and
    `collage` the versions of both, and `method` that of our way of measuring. A kernel may take
    `memory` bytes there, unless another limit is given; equal machines may differ in that.
    """

    name: str
    processor: str
    hidden: str
    architecture: str
    processors: int
    cache: int
    tvm: str
    collage: str
    method: int
    memory: int = field(compare=False)

    def aimed(self, toolchain: Toolchain) -> Toolchain:
        """`toolchain`, which names a processor: if it named none, that of this machine."""
        if toolchain.kind != "llvm" or "mcpu" in toolchain.options:
            return toolchain
        options = {"mcpu": self.processor, **toolchain.options}
        if self.hidden:
            options["mattr"] = (*self.hidden.split(","), *items_of(toolchain.options, "mattr"))
        return replace(toolchain, options=options)

    def runs_on(self, toolchain: Toolchain) -> str:
        """The name of what runs the kernels of `toolchain`: of a GPU also, where it is one."""
        if toolchain.kind not in GPU_KINDS:
            return self.name
        device = tvm.runtime.device(toolchain.kind)
        return f"{self.name}, {device.device_name}" if device.exist else self.name

    def difference(self, other: "Machine") -> str:
        """Each property in which `other` differs; empty if there is none."""
        ours, theirs = asdict(self), asdict(other)
        return ", ".join(
            f"{each.name} {ours[each.name]} and {theirs[each.name]}"
            for each in fields(self)
            if each.compare and ours[each.name] != theirs[each.name]
        )

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Machine":
        """Raises ValueError where the text describes no machine."""
        found = json.loads(text)
        names = {each.name for each in fields(cls)}
        if not isinstance(found, dict) or set(found) != names:
            raise ValueError(f"no description of a machine: {text[:200]}")
        return cls(**found)


def is_here(name: str) -> bool:
    """Whether costs that are kept for `name` are of this processor, or of a GPU beside it."""
    return name == cpu_name() or name.startswith(f"{cpu_name()}, ")


def this_machine() -> Machine:
    """The machine that this process runs on, as it is now."""
    return Machine(
        cpu_name(),
        host_cpu(),
        ",".join(hidden(host_cpu())),
        platform.machine(),
        processors(),
        last_level_cache_bytes(),
        str(tvm.__version__),
        version("collage_dsl"),
        METHOD,
        default_limit(),
    )
