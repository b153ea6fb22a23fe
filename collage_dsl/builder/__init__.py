"""
Build fusion specs in Python: the same trees as from spec files, with the same checks.

    from collage_dsl.builder import PatternBuilder, dfpattern, one, target

    block = PatternBuilder("conv_relu")
    x, w = block.value("x"), block.constant("w")
    k = block.bind("k", one("nn.conv2d")(x, w, groups=1))
    block.where(w.dim(0) % 16 == 0, "the blocked layout needs channels divisible by 16")
    conv_relu = block.yields(block.bind("y", one("nn.relu")(k)))
    spec = target("acme", "llvm", rules=dfpattern(conv_relu), compiler="acme")

Equations of a pattern are about values, conditions consist of terms. `==`, `<`, `%`, `&`, `|` and
`~` of terms are terms.
"""

from collage_dsl.builder.files import Definition, imported, pattern_table
from collage_dsl.builder.patterns import Dims, PatternBuilder
from collage_dsl.builder.rules import (
    CONSTANTS,
    INJECTIVE_BRANCHES,
    JOIN_ANYTHING,
    TUPLE_ARGS,
    TUPLE_PROJECTIONS,
    combine_by_primitives,
    composite,
    dfpattern,
    forbid,
    horizontal,
    host,
    kind,
    max_coalesce,
    name,
    only_valid,
    only_variants,
    op,
    op_call_by_kind,
    op_predicate,
    pin,
    primitive,
    target,
    union,
    vertical,
)
from collage_dsl.builder.terms import Term, all_elements, attribute, each
from collage_dsl.builder.values import (
    ANYTHING,
    Operators,
    Value,
    approximately,
    either,
    extern_predicate,
    holds,
    list_of,
    match,
    number,
    one,
    path,
    repeat,
    tuple_of,
    tuple_of_each,
)
from collage_dsl.rules import TVM_DEFAULT

__all__ = [
    "ANYTHING",
    "CONSTANTS",
    "INJECTIVE_BRANCHES",
    "JOIN_ANYTHING",
    "TUPLE_ARGS",
    "TUPLE_PROJECTIONS",
    "TVM_DEFAULT",
    "Definition",
    "Dims",
    "Operators",
    "PatternBuilder",
    "Term",
    "Value",
    "all_elements",
    "approximately",
    "attribute",
    "combine_by_primitives",
    "composite",
    "dfpattern",
    "each",
    "either",
    "extern_predicate",
    "forbid",
    "holds",
    "horizontal",
    "host",
    "imported",
    "kind",
    "list_of",
    "match",
    "max_coalesce",
    "name",
    "number",
    "one",
    "only_valid",
    "only_variants",
    "op",
    "op_call_by_kind",
    "op_predicate",
    "path",
    "pattern_table",
    "pin",
    "primitive",
    "repeat",
    "target",
    "tuple_of",
    "tuple_of_each",
    "union",
    "vertical",
]
