"""Decide whether a target may run calls that are planned for a device."""

import json
from collections.abc import Mapping
from typing import Any

from collage_dsl.frontend.devices import plain_options
from collage_dsl.graph import Device
from collage_dsl.targets.attach import ATTRIBUTE, COMPILER
from collage_dsl.targets.default import target_of

Options = Mapping[str, Any]
"""All options of a TVM target, as plain data."""


def _refines(option: str) -> bool:
    """Whether an option of a target says how kernels are found."""
    return option == COMPILER or option.startswith(ATTRIBUTE)


def options_of_target(target: Any) -> Options:
    """What a TVM target says, that of a spec alone included."""
    options: Options = plain_options(target_of(target).export())
    return options


def may_run(target: Options, device: Device) -> bool:
    """Whether `target` is the target of `device`, or refines it."""
    planned = json.loads(device.target)
    return target == planned or refines(target, planned)


def refines(target: Options, planned: Options) -> bool:
    """
    Whether `target` says how kernels are found, by a compiler or a fusion spec, and `planned` does
    not, and all other options of the two are equal.
    """
    said, also = (any(map(_refines, options)) for options in (target, planned))
    rest = {key: value for key, value in target.items() if not _refines(key)}
    return said and not also and rest == planned
