"""The fusion rules, the patterns and conditions they are made of, and fusion specs."""

from collage_dsl.rules.limits import Limits
from collage_dsl.rules.pattern import Pattern
from collage_dsl.rules.primitive import (
    TVM_DEFAULT,
    Constants,
    InjectiveBranches,
    JoinAnything,
    KindPair,
    Primitive,
    TupleArgs,
    TupleProjections,
)
from collage_dsl.rules.rule import (
    FUSIBLE,
    CombineByPrimitives,
    DFPattern,
    FusionRule,
    Horizontal,
    Host,
    Joining,
    MaxCoalesce,
    OnlyValid,
    OnlyVariants,
    OpCallByKind,
    OpPredicate,
    Tagged,
    Union,
    Vertical,
    sub_rules,
)
from collage_dsl.rules.spec import FusionSpec, Specs
from collage_dsl.rules.trace import Refusal, Trace

__all__ = [
    "FUSIBLE",
    "TVM_DEFAULT",
    "CombineByPrimitives",
    "Constants",
    "DFPattern",
    "FusionRule",
    "FusionSpec",
    "Horizontal",
    "Host",
    "InjectiveBranches",
    "JoinAnything",
    "Joining",
    "KindPair",
    "Limits",
    "MaxCoalesce",
    "OnlyValid",
    "OnlyVariants",
    "OpCallByKind",
    "OpPredicate",
    "Pattern",
    "Primitive",
    "Refusal",
    "Specs",
    "Tagged",
    "Trace",
    "TupleArgs",
    "TupleProjections",
    "Union",
    "Vertical",
    "sub_rules",
]
