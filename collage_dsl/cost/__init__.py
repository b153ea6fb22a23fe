"""Costs of kernels, the store on disk that keeps them, and estimates that need no TVM."""

from collage_dsl.cost.cost import (
    Copies,
    Cost,
    CostError,
    CostFunction,
    Infeasible,
    Refusal,
    Variant,
    cheapest,
)
from collage_dsl.cost.database import StoreError, StoreWarning
from collage_dsl.cost.measurement import Context, Known, Measurement
from collage_dsl.cost.peak import Peak
from collage_dsl.cost.sources import (
    NOWHERE,
    CostSource,
    CostSources,
    Offered,
    Provenance,
    Source,
    SourceError,
    Sources,
    UnknownSource,
    always_known,
    check_sources,
    only,
)
from collage_dsl.cost.spread import Spread
from collage_dsl.cost.store import CostStore
from collage_dsl.cost.table import CostTable, TableError

__all__ = [
    "NOWHERE",
    "Context",
    "Copies",
    "Cost",
    "CostError",
    "CostFunction",
    "CostSource",
    "CostSources",
    "CostStore",
    "CostTable",
    "Infeasible",
    "Known",
    "Measurement",
    "Offered",
    "Peak",
    "Provenance",
    "Refusal",
    "Source",
    "SourceError",
    "Sources",
    "Spread",
    "StoreError",
    "StoreWarning",
    "TableError",
    "UnknownSource",
    "Variant",
    "always_known",
    "cheapest",
    "check_sources",
    "only",
]
