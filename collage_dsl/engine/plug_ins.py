"""Try what installed packages declare: backends, engines, sources of costs, search strategies."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import EntryPoint

from collage_dsl.backends import engines, registry
from collage_dsl.cost import sources
from collage_dsl.declared import described, every_declared, loaded
from collage_dsl.search import strategies


@dataclass(frozen=True, slots=True)
class PlugIn:
    """One entry point of another package; `fault` says why it cannot be used."""

    kind: str
    point: EntryPoint
    fault: str = ""


def plug_ins() -> Iterator[PlugIn]:
    """What other packages declare, by group and name. Imports them."""
    for kind, group, taken in _GROUPS:
        points = sorted({each for each in every_declared(group) if not _is_ours(each)})
        names = [each.name for each in points]
        for point in points:
            if point.name in taken:
                yield PlugIn(kind, point, "collage_dsl has one of this name, which is used instead")
            elif names.count(point.name) > 1:
                yield PlugIn(kind, point, "several packages declare this name: remove all but one")
            else:
                yield PlugIn(kind, point, _fault(kind, point))


def _is_ours(point: EntryPoint) -> bool:
    return point.value.startswith("collage_dsl.")


def _fault(kind: str, point: EntryPoint) -> str:
    try:
        _TRY[kind](point)
    except (Unusable, *registry.NO_BACKEND) as error:
        return str(error)
    return ""


class Unusable(Exception):  # noqa: N818 (a reason)
    """An entry point cannot be loaded, or is no function."""


def _function(kind: str) -> Callable[[EntryPoint], object]:
    def tried(point: EntryPoint) -> None:
        if not callable(found := loaded(kind, point, Unusable)):
            raise Unusable(f"{described(kind, point)} is no function: {found!r}")

    return tried


_GROUPS = (
    ("backend", registry.GROUP, tuple(registry.BUILT_IN)),
    ("engine", engines.GROUP, ("onnxruntime",)),
    ("source of costs", sources.GROUP, sources.WORDS),
    ("strategy", strategies.GROUP, tuple(strategies.STRATEGIES)),
)

_TRY: dict[str, Callable[[EntryPoint], object]] = {
    "backend": lambda point: registry.find_backend(point.name),
    **{kind: _function(kind) for kind in ("engine", "source of costs", "strategy")},
}
