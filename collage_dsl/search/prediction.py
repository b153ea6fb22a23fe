"""What kernels will probably cost, judged by the kernels whose costs are known."""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from itertools import islice

from collage_dsl.cost import Cost, Infeasible
from collage_dsl.cost.traffic import moved_bytes
from collage_dsl.graph import CandidateKernel, Graph, members
from collage_dsl.search.structure import Structure

_RIDGE = 1e-4
"""
How much an amount of its own counts, as part of the squared relative error of the kernel with most
of it. So what kernels always do together shares its cost.
"""

_SWEEPS = 20
_CLOSE = 1e-3
"""A fit ends after so many sweeps, or if a sweep changes no prediction by this part of a cost."""

Work = Mapping[int, int]
"""How much a kernel does of each kind of work, by number."""


class Prediction:
    """
    Predicts the cost of a kernel as a sum: an amount for each kernel of its target, for each byte
    that it moves, and for each of its calls. Calls of an operator with the same attributes on
    operands of the same types cost the same amount.

    The amounts are those of the least squares of the relative errors of all kernels that were
    learnt. None is negative. They are found by coordinate descent (Franc, Hlaváč, Navara 2005),
    which goes on from the last amounts. Work that no learnt kernel does adds nothing.
    """

    def __init__(self, graph: Graph, structure: Structure) -> None:
        self._graph = graph
        self._structure = structure
        self._numbers: dict[Hashable, int] = {}
        self._work: dict[CandidateKernel, Work] = {}
        self._amounts: list[float] = []
        self._doing: list[list[tuple[int, float]]] = []
        """For each kind of work, the learnt kernels that do it, and how much in a second."""
        self._errors: list[float] = []
        """Of the learnt kernels, as parts of their costs."""

    def learn(self, candidate: CandidateKernel, seconds: float) -> None:
        """The cost of a kernel has become known. It says nothing if it is 0."""
        if seconds <= 0:
            return
        error = 1.0
        for number, amount in self._work_of(candidate).items():
            self._doing[number].append((len(self._errors), amount / seconds))
            error -= self._amounts[number] * amount / seconds
        self._errors.append(error)

    def fit(self) -> None:
        """Let the amounts fit all kernels that were learnt."""
        for _ in range(_SWEEPS):
            if max(map(self._fitted, range(len(self._amounts))), default=0.0) < _CLOSE:
                break

    def of(self, candidate: CandidateKernel) -> float:
        """The predicted seconds."""
        amounts = self._amounts
        return sum(amounts[each] * amount for each, amount in self._work_of(candidate).items())

    def _fitted(self, number: int) -> float:
        """Fit one amount. Returns the largest change of a prediction, as part of a cost."""
        doing, errors, before = self._doing[number], self._errors, self._amounts[number]
        most = max((share for _, share in doing), default=0.0)
        own = _RIDGE * most * most
        if not own:
            return 0.0
        pull = sum(share * errors[row] for row, share in doing) - own * before
        after = max(0.0, before + pull / (own + sum(share * share for _, share in doing)))
        if after != before:
            for row, share in doing:
                errors[row] -= (after - before) * share
            self._amounts[number] = after
        return abs(after - before) * most

    def _work_of(self, candidate: CandidateKernel) -> Work:
        if candidate not in self._work:
            inside, calls = candidate.sub_graph.inside, candidate.calls
            work = Counter[Hashable](map(self._structure.of_node, members(calls)))
            work["kernel"], work["byte"] = 1, moved_bytes(self._graph, inside, calls)
            self._work[candidate] = {
                self._number((candidate.target, kind)): amount for kind, amount in work.items()
            }
        return self._work[candidate]

    def _number(self, kind: Hashable) -> int:
        number = self._numbers.setdefault(kind, len(self._amounts))
        if number == len(self._amounts):
            self._amounts.append(0.0)
            self._doing.append([])
        return number


class Foresight:
    """The predicted costs of some `candidates`, from those of them that are `known`."""

    def __init__(
        self,
        prediction: Prediction,
        candidates: Iterable[CandidateKernel],
        known: Mapping[CandidateKernel, Cost],
    ) -> None:
        self._prediction = prediction
        self.candidates = dict.fromkeys(candidates)
        self.has_begun = False
        self._known = known
        self._learnt = 0
        self._of: dict[CandidateKernel, float] = {}

    def renew(self) -> bool:
        """Predict anew, if more costs are known. Says whether that is so."""
        self.has_begun = True
        new = list(islice(self._known.items(), self._learnt, None))
        self._learnt += len(new)
        for candidate, cost in new:
            if candidate in self.candidates and not isinstance(cost, Infeasible):
                self._prediction.learn(candidate, cost)
        if new:
            self._prediction.fit()
            self._of.clear()
        return bool(new)

    def of(self, candidate: CandidateKernel) -> float:
        """In seconds; 0 for another candidate, such as a region."""
        if candidate not in self._of:
            is_one = candidate in self.candidates
            self._of[candidate] = self._prediction.of(candidate) if is_one else 0.0
        return self._of[candidate]
