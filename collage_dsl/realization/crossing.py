"""Kernels on another device than the values around them: virtual devices, types and copies."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import relax

from collage_dsl.backends.tvm_target import kernel_target
from collage_dsl.graph import CandidateKernel
from collage_dsl.graph.target_kinds import share_device

_VDEVICE = "vdevice"
_TO_VDEVICE = tvm.ir.Op.get("relax.to_vdevice")


class NoDevice(Exception):  # noqa: N818, reads as what it says
    """A device is not there."""


@dataclass(frozen=True, slots=True)
class Crossing:
    """The virtual device of a kernel, `there`, and that of the values around it, `here`."""

    there: Any
    here: Any


def crosses(candidate: CandidateKernel, default: str) -> bool:
    """
    Whether a kernel needs copies where values are on the device of targets of the kind `default`:
    it runs on another, and none of its calls are planned for a device.
    """
    graph, inside = candidate.graph, candidate.sub_graph.inside
    return not share_device(candidate.toolchain.kind, default) and not graph.devices(inside)


def crossing_of(module: tvm.IRModule, candidate: CandidateKernel, default: Any) -> Crossing | None:
    """
    The devices that a kernel of `module` lies between, which get to be known to the module; None
    where it needs no copies. Values are on the device of the TVM target `default`.
    """
    if not crosses(candidate, str(default.kind.name)):
        return None
    here = _virtual_device(module, default)
    return Crossing(_virtual_device(module, kernel_target(candidate.toolchain)), here)


def virtual_devices(module: tvm.IRModule) -> list[Any]:
    """
    The virtual devices of a module. The VM is given a device for each, in this order; the first
    is that of values which are planned for none.
    """
    return list(module.global_infos.get(_VDEVICE, ()))


def devices_of(module: tvm.IRModule, kind: str) -> tuple[str, ...]:
    """
    The devices that the VM is to be given, by their names in TVM: those of the virtual devices;
    where there are none, that of targets of `kind`.
    """
    known = [(device.target, int(device.vdevice_id)) for device in virtual_devices(module)]
    return tuple(device_name(target, number) for target, number in known) or (device_name(kind),)


def device_name(target: Any, number: int = 0) -> str:
    """The device of a target, or of those of a kind, as TVM spells it: `cuda:0`."""
    type_ = int(tvm.target.Target(target).get_target_device_type())
    return str(tvm.runtime.device(type_, number))


def device_named(name: str) -> Any:
    """Raises `NoDevice` where this machine lacks it, or TVM has no code for it."""
    device = tvm.runtime.device(name)
    if not device.exist:
        raise NoDevice(f"there is no device {name} here")
    return device


def _virtual_device(module: tvm.IRModule, target: Any) -> Any:
    """The first virtual device for kinds that share the device of `target`; else a new one."""
    known = virtual_devices(module)
    kind = str(target.kind.name)
    for device in known:
        if share_device(str(device.target.kind.name), kind):
            return device
    device = relax.VDevice(_code_target(target))
    module.update_global_info(_VDEVICE, [*known, device])
    return device


def _code_target(target: Any) -> Any:
    """`target` without what says how kernels are found, and for which host."""
    options: Mapping[str, Any] = target.export()
    kept = {n: v for n, v in options.items() if n != "host" and not n.startswith("feature.")}
    return tvm.target.Target(kept)


def on_device(what: Any, device: Any) -> Any:
    """A function, or a type, with all its tensors on a virtual device; None where on none."""

    def moved(type_: Any) -> Any:
        if type_.shape is None:
            return relax.TensorType(None, type_.dtype, device, type_.ndim)
        return relax.TensorType(type_.shape, type_.dtype, device)

    return tvm_ffi.structural_map(what, (relax.TensorType, moved))


def copies_in(bindings: Sequence[Any]) -> dict[int, list[Any]]:
    """What each variable is a copy of, or a cast of a copy, by its handle."""
    found: dict[int, list[Any]] = {}
    for binding in bindings:
        value = binding.value
        if isinstance(value, tvm.ir.Call) and value.op == _TO_VDEVICE:
            found[hash(binding.var)] = [value.args[0]]
        elif isinstance(binding, relax.MatchCast) and hash(value) in found:
            found[hash(binding.var)] = list(found[hash(value)])
    return found


def is_on(value: Any, device: Any) -> bool:
    """Whether a tensor is on a virtual device of the module that has `device`."""
    type_ = value.ty
    return isinstance(type_, relax.TensorType) and bool(
        type_.vdevice is not None and tvm_ffi.structural_equal(type_.vdevice, device)
    )
