"""Read from a Relax type the virtual device that a value is planned for."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tvm import relax

from collage_dsl.frontend.errors import UnsupportedRelax
from collage_dsl.graph import Device


def device_of(type_: Any) -> Device | None:
    """
    The device that values of a Relax type are planned for; None if they are planned for none.
    Raises `UnsupportedRelax` if the fields of a tuple are on several devices.
    """
    found = list(dict.fromkeys(_devices(type_)))
    if len(found) > 1:
        raise UnsupportedRelax("the fields of a tuple are on several devices")
    return found[0] if found else None


def _devices(type_: Any) -> Iterator[Device]:
    match type_:
        case relax.TensorType() if type_.vdevice is not None:
            planned = type_.vdevice
            target = json.dumps(plain_options(planned.target.export()), sort_keys=True)
            yield Device(target, int(planned.vdevice_id), str(planned.memory_scope))
        case relax.TupleType():
            for field in type_.fields:
                yield from _devices(field)


def plain_options(value: Any) -> Any:
    """The options of a TVM target as values for JSON."""
    if isinstance(value, Mapping):
        return {str(name): plain_options(each) for name, each in value.items()}
    if isinstance(value, bool | int | float):
        return value
    return str(value) if isinstance(value, str) else [plain_options(each) for each in value]
