"""Say which ONNX node a kernel failed at, when a model runs."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from collage_dsl.realization.signature import Sources

_MOST = 3
"""The most nodes that a message names."""


class Finder:
    """
    Follows the calls of the virtual machine, until one fails: `running` is the kernel whose call
    did not end.
    """

    def __init__(self, sources: Sources) -> None:
        self.sources = sources
        self.calls: Counter[str] = Counter()
        self.running = ""

    def __call__(self, _function: Any, name: str, before: bool, *_: Any) -> int:
        """What the virtual machine calls before and after each of its calls."""
        if name in self.sources:
            self.calls[name] += before
            self.running = name if before else ""
        return 0

    def explained(self, message: str) -> str:
        """`message` of the failed kernel with the nodes that it may be about, if any is known."""
        known = self.sources.get(self.running, ())
        place = self.calls[self.running] - 1
        if not 0 <= place < len(known):
            return message
        operators = known[place]
        operator, _, rest = message.partition(": ")
        if operator in operators:
            return f"{rest}, at {_listed(operators[operator])}"
        every = [node for nodes in operators.values() for node in nodes]
        running = re.search(r"while running (\w+) node", message)
        exact = [each for each in every if running and f"the {running[1]} node" in each]
        return f"{message}, at {_listed(exact or every)}"


def _listed(nodes: Sequence[str]) -> str:
    nodes = list(dict.fromkeys(nodes))
    more = f" or {len(nodes) - _MOST} others" if len(nodes) > _MOST else ""
    return " or ".join(nodes[:_MOST]) + more
