"""Other names for our rules, settings and signs. We read them; the formatter writes ours."""

from collections.abc import Mapping

_CLASSES = {
    "Combine": "combine_by_primitives",
    "CombineByPrimitives": "combine_by_primitives",
    "Composite": "composite",
    "DFPattern": "dfpattern",
    "Host": "host",
    "MaxCoalesce": "max_coalesce",
    "OnlyValid": "only_valid",
    "OpCallByKind": "op_call_by_kind",
    "OpPredicate": "op_predicate",
    "Primitive": "primitive",
    "Union": "union",
}

RULES: Mapping[str, str] = {
    "combine": "combine_by_primitives",
    **{
        f"{name}{end}": ours
        for name, ours in _CLASSES.items()
        for end in ("", "PartitionRule", "FusionRule")
    },
}
"""Names of rule functions, such as `Combine`, `CombinePartitionRule`, `CombineFusionRule`."""

SETTINGS: Mapping[str, str] = {"partition_rule": "rules", "fusion_rule": "rules"}
"""Names of target settings."""

SIGNS: Mapping[str, str] = {"≈": "~="}
"""Signs that few keyboards have."""
