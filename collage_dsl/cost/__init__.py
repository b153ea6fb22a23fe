"""Costs of kernels: what they are, where they are kept, and estimates that need no TVM."""

from collage_dsl.cost.cost import Copies, Cost, CostFunction, Infeasible
from collage_dsl.cost.peak import Peak
from collage_dsl.cost.store import CostStore, Measurement, StoreError
from collage_dsl.cost.table import CostTable, TableError

__all__ = [
    "Copies",
    "Cost",
    "CostFunction",
    "CostStore",
    "CostTable",
    "Infeasible",
    "Measurement",
    "Peak",
    "StoreError",
    "TableError",
]
