"""The target on whose device values are that are planned for none."""

from typing import Any

import tvm

from collage_dsl.rules import FusionSpec
from collage_dsl.targets.attach import embedded


def default_target(module: Any, given: Any) -> Any:
    """
    That of the first virtual device of `module`, since TVM puts there what is planned for none;
    else the current target, as inside `tvm.compile`; else `given`, a spec or a TVM target.
    """
    devices = module.global_infos.get("vdevice", ())
    if devices:
        return devices[0].target
    current = tvm.target.Target.current(allow_none=True)
    return target_of(given) if current is None else current


def target_of(given: Any) -> Any:
    """The TVM target of a spec, or of what TVM takes for a target."""
    return tvm.target.Target(embedded(given) if isinstance(given, FusionSpec) else given)
