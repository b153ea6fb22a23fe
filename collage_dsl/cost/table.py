"""Costs by formula from a small YAML or JSON file, for plans without measuring."""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from math import nan
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field, TypeAdapter, ValidationError

from collage_dsl.cost.cost import Cost, Infeasible
from collage_dsl.cost.strict import Strict
from collage_dsl.graph import CandidateKernel
from collage_dsl.reading import cause_of, first_fault, text_of
from collage_dsl.yaml_texts import yaml_of


class TableError(Exception):
    """A cost table cannot be used."""


def _no_truth(value: object) -> object:
    """YAML reads `yes` and `on` as true, which pydantic would take for 1."""
    if isinstance(value, bool):
        raise ValueError("this should be a number, not true or false")
    return value


_Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False), BeforeValidator(_no_truth)]


class TargetCosts(Strict):
    """
    The costs of one target, in seconds.

    The k-th operator of a kernel costs its price in `ops` times `discount` to the power k
    (k from 0, in graph order). Each kernel costs `launch` in addition. `ops` maps globs of
    operator names to prices; the first glob that matches counts.
    """

    ops: dict[str, _Seconds] = Field(min_length=1)
    discount: Annotated[_Seconds, Field(le=1)] = 0.9
    launch: _Seconds = 0

    def price(self, op: str) -> float | None:
        return next((cost for glob, cost in self.ops.items() if fnmatchcase(op, glob)), None)

    def cost(self, operators: tuple[str, ...]) -> Cost:
        total = self.launch
        for position, op in enumerate(operators):
            price = self.price(op)
            if price is None:
                return Infeasible(f"the cost table has no price for {op}")
            total += price * self.discount**position
        return total


class CostTable:
    """A `CostFunction` that looks costs up by target and operator. Its `name` is that of a file."""

    def __init__(self, targets: Mapping[str, TargetCosts], name: str = "") -> None:
        if not isinstance(targets, Mapping):
            raise TypeError(
                "`targets` of `CostTable` must map names of targets to `TargetCosts`; "
                "`CostTable.load` reads a file"
            )
        self.targets = targets
        self.name = name

    def __call__(self, candidate: CandidateKernel) -> Cost:
        costs = self.targets.get(candidate.target)
        if costs is None:
            return Infeasible(f"the cost table has no target `{candidate.target}`")
        return costs.cost(candidate.graph.operators(candidate.sub_graph.inside))

    def known(self, candidate: CandidateKernel) -> Cost:
        """The cost, or NaN where the table has no price for the kernel."""
        cost = self(candidate)
        return nan if isinstance(cost, Infeasible) else cost

    @classmethod
    def load(cls, path: str | Path) -> "CostTable":
        """
        The table in a YAML or JSON file, which maps target names to `TargetCosts`. Raises
        `TableError` if the file is missing or has another form.

            tvm: {launch: 2.0e-6, ops: {"nn.conv2d": 3.0e-4, "*": 1.0e-5}}
        """
        try:
            rows = yaml_of(text_of(path))
            return cls(TypeAdapter(dict[str, TargetCosts]).validate_python(rows), str(path))
        except ValidationError as error:
            raise TableError(f"cost table {path}: {first_fault(error)}") from error
        except (OSError, ValueError) as error:
            raise TableError(f"cannot read the cost table {path}: {cause_of(error)}") from error
