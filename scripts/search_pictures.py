"""
Make the pictures of the search strategies for `scripts/pictures.py`.

It runs the examples of `docs/search.md`.
"""

import doctest
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import onnx

from collage_dsl.cli.targets import load_targets
from collage_dsl.cost.table import CostTable
from collage_dsl.engine.steps import propose
from collage_dsl.frontend.onnx import from_onnx
from collage_dsl.graph import CandidateKernel
from collage_dsl.report.picture import Group, Panel, picture, plan_panel
from collage_dsl.report.text import seconds
from collage_dsl.search import Plan, Problem, search
from collage_dsl.search.columns import Relaxation, relaxation
from collage_dsl.search.exhaustive import covers

PAGE = Path(__file__).parent.parent / "docs" / "search.md"


def search_pictures() -> dict[str, str]:
    """The picture of each strategy, by the name of the strategy."""
    page = PAGE.read_text("utf-8")
    fire, names = _problem(page, "fire"), _session(page)
    drawn: Mapping[str, Callable[[], str]] = {
        "auto": lambda: _auto(fire),
        "dijkstra": lambda: _dijkstra(names["bounded"], names["late"], names["least"]),
        "milp": lambda: _milp(names["problem"], names["plan"], names["relaxed"]),
        "beam": lambda: _beam(names["rough"], relaxation(names["paired"])),
        "exhaustive": lambda: _exhaustive(fire),
    }
    return {name: draw() for name, draw in drawn.items()}


def _auto(problem: Problem) -> str:
    plan = search(problem, "auto")
    assert plan.record is not None
    found = f"{seconds(plan.cost)}, searched by {plan.record.strategy}"
    because = f"since {plan.record.because}"
    return picture(problem.graph, [plan_panel(plan, [found, because])])


def _dijkstra(problem: Problem, plan: Plan, least: Callable[[CandidateKernel], float]) -> str:
    """The plan, then each kernel that is not in it."""
    rest = _not_taken(problem.candidates, plan)
    panels = [_taken(plan, {each: seconds(_known(problem, each)) for each in plan.candidates})]
    for each in filter(problem.is_asked, rest):
        text = f"{_name(each)}: {seconds(_known(problem, each))}"
        panels.append(Panel([_group(each, len(panels), text)], ["priced, not taken"]))
    for each in (each for each in rest if not problem.is_asked(each)):
        text = f"{_name(each)}: {seconds(least(each))} or more"
        panels.append(Panel([_group(each, len(panels), text, is_faint=True)], ["never priced"]))
    return picture(problem.graph, panels)


def _milp(problem: Problem, plan: Plan, relaxed: Relaxation) -> str:
    """The plan with the worth of its calls, then each kernel that is not in it."""

    def said(kernel: CandidateKernel) -> str:
        worth = " + ".join(seconds(relaxed.worth[name]) for name in sorted(kernel.nodes))
        return f"{seconds(_known(problem, kernel))}, worth {worth}"

    panels = [_taken(plan, {each: said(each) for each in plan.candidates})]
    for each in _not_taken(relaxed.surplus, plan):
        text = f"{_name(each)}: {said(each)}"
        loses = f"would lose {seconds(relaxed.surplus[each])}"
        panels.append(Panel([_group(each, len(panels), text)], [loses]))
    return picture(plan.graph, panels)


def _beam(plan: Plan, relaxed: Relaxation) -> str:
    """The plan, and the relaxation that bounds its cost."""
    assert plan.record is not None
    calls = [
        Group(plan.graph.set_of(name), at, f"{name}: worth {seconds(worth)}", is_faint=True)
        for at, (name, worth) in enumerate(relaxed.worth.items(), len(plan.kernels))
    ]
    costs = {each.candidate: seconds(each.cost) for each in plan.kernels}
    bound = f"no plan costs less than {seconds(plan.record.bound)}"
    return picture(plan.graph, [_taken(plan, costs), Panel(calls, [bound])])


def _exhaustive(problem: Problem) -> str:
    """The cheapest and the most expensive of all covers."""
    plans = sorted((problem.plan(each) for each in covers(problem)), key=lambda plan: plan.cost)
    shown = {f"cheapest of {len(plans)} covers": plans[0], "dearest": plans[-1]}
    targets = [kernel.target for kernel in plans[0].kernels]
    panels = [
        plan_panel(plan, [f"{name}: {seconds(plan.cost)}"], targets) for name, plan in shown.items()
    ]
    return picture(problem.graph, panels)


def _taken(plan: Plan, said: Mapping[CandidateKernel, str]) -> Panel:
    groups = [_group(each, at, f"{_name(each)}: {said[each]}") for at, each in enumerate(said)]
    return Panel(groups, [f"the plan: {seconds(plan.cost)}"])


def _not_taken(candidates: Iterable[CandidateKernel], plan: Plan) -> list[CandidateKernel]:
    return [each for each in candidates if each not in plan.candidates]


def _group(candidate: CandidateKernel, colour: int, text: str, *, is_faint: bool = False) -> Group:
    return Group(candidate.sub_graph.inside, colour, text, is_faint)


def _name(candidate: CandidateKernel) -> str:
    return " ".join(sorted(candidate.nodes))


def _known(problem: Problem, candidate: CandidateKernel) -> float:
    cost = problem.cost(candidate)
    assert isinstance(cost, float)
    return cost


def _problem(page: str, model: str) -> Problem:
    """The problem of `collage plan` for a model of the page, with the target and costs there."""
    with TemporaryDirectory() as folder, chdir(folder):
        exec(compile(_block(page, "python"), "models.py", "exec"), {})
        Path("wide.collage").write_text(_block(page, "collage"))
        Path("costs.yaml").write_text(_block(page, "yaml"))
        graph = from_onnx(onnx.load(f"{model}.onnx"))
        specs = load_targets(["native", "wide.collage"])
        return Problem(graph, propose(graph, *specs), CostTable.load(Path("costs.yaml")))


def _block(page: str, language: str) -> str:
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", page, flags=re.M | re.S)
    return str(found)


def _session(page: str) -> dict[str, Any]:
    """The names that are defined after running the Python sessions of the page."""
    names: dict[str, Any] = {}
    for example in doctest.DocTestParser().get_examples(page):
        exec(compile(example.source, "search.md", "exec"), names)
    return names
