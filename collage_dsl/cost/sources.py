"""Several sources of costs behind one interface, of which the first that knows a cost gives it."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from math import isnan, nan
from numbers import Real
from pathlib import Path
from typing import Self

from collage_dsl.cost.cost import Cost, CostError, CostFunction, Infeasible
from collage_dsl.cost.table import CostTable
from collage_dsl.declared import declared, described, loaded, unknown, without_faults
from collage_dsl.graph import CandidateKernel
from collage_dsl.reading import other_than_file

GROUP = "collage_dsl.costs"
"""The group of entry points in which packages declare sources of costs, by name."""

MEASURED, RECORDED, ANALYTIC = WORDS = ("measured", "recorded", "analytic")

_STORE = ".sqlite"
"""The suffix of the file of a store; any other file is a table."""


class SourceError(Exception):
    """A source of costs cannot be used."""


class UnknownSource(SourceError):  # noqa: N818, reads as what it says
    """No source of costs has the name that is given, and no file."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        self.name, self.known = name, tuple(sorted(set(known)))
        super().__init__(name, self.known)

    def __str__(self) -> str:
        return unknown("file and no source of costs", self.name, self.known)


@dataclass(frozen=True, slots=True)
class Provenance:
    """The name of the source of a cost, and when it was measured, in UTC, if that is known."""

    source: str
    measured_at: str = ""


@dataclass(frozen=True, slots=True)
class Source:
    """
    One source of costs: its `name` in reports, and the `cost` of a kernel, NaN where it knows none.

    `measured_at` says when a cost that it gave was measured; empty where that is not known. `ahead`
    hears of several kernels before their costs are asked for. A source `is_timed` if its costs are
    times of this machine, for which the lower bounds of this machine hold. `has` says of a kernel,
    without effort, whether its cost is there already; None where that cannot be said.
    """

    name: str
    cost: CostFunction
    measured_at: Callable[[CandidateKernel], str] = lambda kernel: ""
    ahead: Callable[[Sequence[CandidateKernel]], None] | None = None
    is_timed: bool = False
    has: Callable[[CandidateKernel], bool] | None = None


_UNKNOWN = "no source of costs knows its cost; with `measured` as the last source, it is measured"

NOWHERE = Source("nowhere", lambda kernel: Infeasible(_UNKNOWN), is_timed=True)
"""The last of several sources where a kernel of unknown cost must not be used."""

CostSource = CostFunction | Source | str | Path
"""
A function, which answers NaN where it does not know a cost; the file of a cost table, or of a
store (`.sqlite`); one of `WORDS`; or the name of an entry point in the group `collage_dsl.costs`.
"""

CostSources = CostSource | Sequence[CostSource]
"""One source, or several that are asked in turn."""


@dataclass(frozen=True, slots=True)
class Offered:
    """
    Makes the sources that a word or a store stands for. `recorded` gets the file of the store; None
    for that in which measured costs are kept.
    """

    measured: Callable[[], Source]
    recorded: Callable[[Path | None], Source]
    analytic: Callable[[], Sequence[Source]]


class Sources:
    """
    A `CostFunction`: the first answer of several sources that is not NaN; NaN where no source knows
    a cost. Each source is asked once for a kernel, and it is kept which one answered; see
    `refresh`. What comes after `NOWHERE` is not asked.
    """

    def __init__(self, sources: Iterable[Source]) -> None:
        every = tuple(sources)
        self.sources = every[: every.index(NOWHERE) + 1] if NOWHERE in every else every
        self._answers: dict[CandidateKernel, tuple[Cost, Source]] = {}

    @classmethod
    def of(cls, given: CostSources, offered: Offered) -> Self:
        """
        The sources that are `given`.

            Sources.of(["recorded", "costs.yaml"], offered)

        A cost table that is given by itself makes a kernel infeasible that it has no price for. As
        one of several it does not know the cost of that kernel, and the next source is asked.
        Raises `TableError` where a file is no cost table, and `SourceError`.
        """
        if isinstance(given, str | Path | Source) or not isinstance(given, Iterable):
            return cls(_made(given, offered, is_alone=True))
        return cls(source for each in given for source in _made(each, offered, is_alone=False))

    def __call__(self, candidate: CandidateKernel) -> Cost:
        for source in self.sources if candidate not in self._answers else ():
            if self._asked(candidate, source):
                break
        return self._answers[candidate][0] if candidate in self._answers else nan

    def ahead(self, candidates: Sequence[CandidateKernel]) -> None:
        """Ask for the costs of several kernels, each source only for what those before leave."""
        left = [each for each in candidates if each not in self._answers]
        for source in self.sources:
            if source.ahead and left:
                source.ahead(left)
            left = [each for each in left if not self._asked(each, source)]

    def have(self, candidate: CandidateKernel) -> bool:
        """Whether a source has the cost of a kernel, and those before it say that they have not."""
        for source in self.sources:
            if source.has is None:
                return False
            if source.has(candidate):
                return True
        return False

    def refresh(self) -> None:
        """Ask again for times that were given: kernels may have been compared since."""
        for candidate, (_, source) in self._answers.items():
            if source.is_timed:
                self._answers[candidate] = source.cost(candidate), source

    @property
    def looks_ahead(self) -> bool:
        """Whether any source wants to hear of several kernels."""
        return any(source.ahead for source in self.sources)

    @property
    def are_timed(self) -> bool:
        """Whether all costs are times of this machine, for which its lower bounds hold."""
        return all(source.is_timed for source in self.sources)

    def provenance(self, candidate: CandidateKernel) -> Provenance | None:
        """Where the cost of a kernel came from; None if none was given."""
        if candidate not in self._answers:
            return None
        _, source = self._answers[candidate]
        return Provenance(source.name, source.measured_at(candidate))

    def _asked(self, candidate: CandidateKernel, source: Source) -> bool:
        """Ask one source for a cost, and keep its answer; False where it does not know it."""
        cost = source.cost(candidate)
        if is_unknown(cost):
            return False
        self._answers[candidate] = cost, source
        return True


def always_known(cost: CostFunction) -> CostFunction:
    """`cost`, which raises `CostError` where it would be NaN."""

    def known(candidate: CandidateKernel) -> Cost:
        answer = cost(candidate)
        if is_unknown(answer):
            raise CostError(f"no source knows the cost of {candidate.label} on {candidate.target}")
        return answer

    return known


def is_table(given: CostSource) -> bool:
    """Whether a source is a cost table or the file of one."""
    if isinstance(given, str) and (given in WORDS or given in declared(GROUP)):
        return False
    return isinstance(given, CostTable) or (
        isinstance(given, str | Path) and Path(given).suffix != _STORE
    )


def only(given: Sequence[CostSource]) -> CostSources:
    """These sources and nothing else: a kernel whose cost they do not know is infeasible."""
    return given[0] if len(given) == 1 and is_table(given[0]) else [*given, NOWHERE]


def check_sources(given: CostSources) -> None:
    """Raise what `Sources.of` would raise for names and files, without opening a store."""
    nothing = Source("", lambda kernel: nan)
    Sources.of(given, Offered(lambda: nothing, lambda path: nothing, lambda: ()))


def _made(given: CostSource, offered: Offered, *, is_alone: bool) -> Iterator[Source]:
    if isinstance(given, Source):
        yield given
    elif isinstance(given, CostTable):
        yield _of_table(given, is_alone=is_alone)
    elif isinstance(given, str) and given in WORDS:
        yield from _of_word(given, offered)
    elif isinstance(given, str) and given in declared(GROUP):
        yield Source(given, _loaded(declared(GROUP)[given]))
    elif isinstance(given, str | Path):
        yield _of_file(given, offered, is_alone=is_alone)
    elif callable(given):
        yield Source(_name_of(given), given)
    else:
        raise SourceError(
            "a source of costs is a function, a table, the name of a file or a word such as "
            f"{MEASURED!r}, not a value of type {type(given).__name__}"
        )


def _of_word(word: str, offered: Offered) -> Sequence[Source]:
    if word == MEASURED:
        return [offered.measured()]
    return [offered.recorded(None)] if word == RECORDED else offered.analytic()


def _of_file(given: str | Path, offered: Offered, *, is_alone: bool) -> Source:
    path = Path(given)
    is_name = isinstance(given, str) and path.name == given and not path.suffix
    if is_name and not path.exists():
        raise UnknownSource(str(given), (*WORDS, *declared(GROUP)))
    if path.suffix != _STORE:
        return _of_table(CostTable.load(path), is_alone=is_alone)
    if not path.is_file():
        reason = other_than_file(path) or "there is no such file"
        raise SourceError(f"cannot read the cost store {path}: {reason}")
    return offered.recorded(path)


def _of_table(table: CostTable, *, is_alone: bool) -> Source:
    return Source(f"table {table.name}".rstrip(), table.__call__ if is_alone else table.known)


def _loaded(point: EntryPoint) -> CostFunction:
    """The function that a package declares as a source of costs. Raises `SourceError`."""
    function = loaded("source of costs", point, SourceError)
    where = described("source of costs", point)
    if not callable(function):
        raise SourceError(f"{where} is no function: {function!r}")

    def cost(kernel: CandidateKernel) -> Cost:
        said = f"{where} has failed for {kernel.label} on {kernel.target}"
        answer: Cost = without_faults(lambda: function(kernel), said, SourceError)
        return answer

    return cost


def _name_of(function: CostFunction) -> str:
    """The name of a function as people wrote it; of an object that is called, that of its class."""
    name = str(getattr(function, "__name__", type(function).__name__))
    return name if name.isidentifier() else "function"


_NUMBERS = (float, Real)
"""Most costs are of the first, which is quicker to find out; those of numpy are of the second."""


def is_unknown(cost: Cost) -> bool:
    """Whether a cost is NaN, which the next source is asked for."""
    return isinstance(cost, _NUMBERS) and isnan(cost)
