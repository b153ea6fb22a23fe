"""Find the outputs of an executable that are new tensors, which only the caller has."""

import re
from collections.abc import Sequence

_CALL = re.compile(r"call +(?P<function>\S+) +in: *(?P<arguments>.*?) *dst: %(?P<result>\w+)")
_RETURN = re.compile(r"ret +%(?P<result>\w+)")

Tensors = tuple[int, ...]
"""The tensors in a register, each named by the line that allocates it; 0 for any other."""


def owned_outputs(listing: str, count: int, name: str = "main") -> tuple[bool, ...]:
    """
    For each of the `count` outputs of the function `name`: whether each call allocates it, once.

    An output may also be an input, a constant, a tensor that is another output too, or a view
    of one of these. This is read from the `listing` of the instructions (`as_text`). An output
    that is made by an unknown instruction counts as not owned.
    """
    found = _returned(listing.partition(f"@{name}:")[2].partition("\n@")[0].splitlines())
    if len(found) != count:
        return (False,) * count
    return tuple(line != 0 and found.count(line) == 1 for line in found)


def _returned(lines: Sequence[str]) -> Tensors:
    """The tensors that a function without branches returns; empty if they are not known."""
    registers: dict[str, Tensors] = {}
    for number, line in enumerate(lines, start=1):
        if call := _CALL.search(line):
            registers[call["result"]] = _result(call, number, registers)
        elif done := _RETURN.search(line):
            return registers.get(done["result"], (0,))
        elif line.strip():
            return ()
    return ()


def _result(call: re.Match[str], number: int, registers: dict[str, Tensors]) -> Tensors:
    match call["function"]:
        case "vm.builtin.alloc_tensor":
            return (number,)
        case "vm.builtin.make_tuple":
            arguments = call["arguments"].split(", ")
            return tuple(_tensor(registers.get(name.removeprefix("%"))) for name in arguments)
        case _:
            return (0,)


def _tensor(held: Tensors | None) -> int:
    return held[0] if held is not None and len(held) == 1 else 0
