"""Random covering problems, small enough to try every cover."""

import random
from dataclasses import replace

from collage_dsl.cost import Cost, Infeasible
from collage_dsl.graph import (
    CandidateKernel,
    Form,
    Graph,
    Kind,
    Node,
    SubGraph,
    Toolchain,
    TupleType,
    members,
)
from collage_dsl.search import NO_HINTS, NO_REPORTER, Hints, LowerBound, Plan, Problem, Reporter
from tests.graphs import F32, LIBRARY, NATIVE

Rank = tuple[int, int, int]


class Costs:
    """A cost for each candidate, the same whenever it is asked; counts who was asked for."""

    def __init__(self, generator: random.Random) -> None:
        self.generator = generator
        self.asked: list[CandidateKernel] = []
        self.known: dict[CandidateKernel, Cost] = {}
        self.whole = generator.random() < 0.5
        self.infeasible = generator.choice([0.0, 0.1, 0.3])

    def __call__(self, candidate: CandidateKernel) -> Cost:
        self.asked.append(candidate)
        return self.known[candidate]

    def price(self, candidates: list[CandidateKernel]) -> None:
        for each in candidates:
            size = len(each.nodes)
            cost = self.generator.randint(0, 4) if self.whole else self.generator.random() * size
            refused = self.generator.random() < self.infeasible * (size > 1 or 0.1)
            self.known[each] = Infeasible("by chance") if refused else float(cost)

    def bound(self) -> LowerBound:
        """Some part of each cost, at most all of it."""
        parts = {each: self.generator.random() for each in self.known}

        def bound(candidate: CandidateKernel) -> float:
            cost = self.known[candidate]
            return 1.0 if isinstance(cost, Infeasible) else cost * parts[candidate]

        return bound


def random_problem(seed: int, *, calls: int = 7, bounded: bool = False) -> Problem:
    """Graphs with tuples, kernels of several results and taps, targets of random priority."""
    generator = random.Random(seed)
    graph = _graph(generator, generator.randint(1, calls))
    priorities = [generator.randint(-2, 2) for _ in range(2)]
    targets = [replace(t, priority=p) for t, p in zip((NATIVE, LIBRARY), priorities, strict=True)]
    found = [CandidateKernel(graph, SubGraph(1 << i), targets[0]) for i in members(graph.calls)]
    found += [_any(generator, graph, targets) for _ in range(generator.randint(0, 4 * calls))]
    found = [each for each in dict.fromkeys(found) if graph.is_convex(each.sub_graph.inside)]
    if generator.random() < 0.2:
        found.remove(generator.choice(found))
    generator.shuffle(found)
    costs = Costs(generator)
    costs.price(found)
    return Problem(graph, found, costs, Hints(costs.bound()) if bounded else NO_HINTS)


def again(problem: Problem, *, bounded: bool = True, reporter: Reporter = NO_REPORTER) -> Problem:
    """The same problem with nothing asked yet."""
    hints = problem.hints if bounded else NO_HINTS
    return Problem(problem.graph, problem.candidates, problem._cost, hints, reporter=reporter)


def rank(plan: Plan) -> Rank:
    """Cost, priority and kernels; less is better."""
    cost = sum(round(kernel.cost * 10**15) for kernel in plan.kernels)
    return cost, -plan.priority, len(plan.kernels)


def _any(generator: random.Random, graph: Graph, targets: list[Toolchain]) -> CandidateKernel:
    """Two to four nodes anywhere, one of them a call."""
    computed = list(members(graph.computed))
    inside = 1 << generator.choice(list(members(graph.calls)))
    for _ in range(generator.randint(1, 3)):
        inside |= 1 << generator.choice(computed)
    return CandidateKernel(graph, SubGraph(inside), generator.choice(targets))


def _graph(generator: random.Random, calls: int) -> Graph:
    """Calls of one or two operands; some of a tuple, through a projection."""
    nodes = [Node("x", Form.INPUT, F32)]
    values = [0]
    for number in range(calls):
        operands = generator.sample(values, k=min(len(values), generator.randint(1, 2)))
        if generator.random() < 0.2:
            fields = (F32,) * len(operands)
            nodes.append(Node(f"t{number}", Form.TUPLE, TupleType(fields), tuple(operands)))
            nodes.append(Node(f"p{number}", Form.PROJECTION, F32, (len(nodes) - 1,), value=0))
            operands = [len(nodes) - 1]
        values.append(len(nodes))
        nodes.append(
            Node(f"n{number}", Form.CALL, F32, tuple(operands), "op", kind=Kind.ELEMENTWISE)
        )
    used = {operand for node in nodes for operand in node.inputs}
    return Graph(nodes, [i for i in range(1, len(nodes)) if i not in used])
