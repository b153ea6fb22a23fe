"""How much a rule proposes in a graph that is known."""

from math import inf

from collage_dsl.graph import Form, Graph
from collage_dsl.language.reasoning.patterns.most_matches import most_matches
from collage_dsl.rules import (
    DFPattern,
    FusionRule,
    Host,
    OnlyValid,
    OnlyVariants,
    OpCallByKind,
    OpPredicate,
    Tagged,
    Union,
    sub_rules,
)


def most_candidates(rule: FusionRule, graph: Graph) -> float:
    """The most candidates of `rule` in `graph`; infinite for a rule that joins candidates."""
    calls = [node for node in graph.nodes if node.form is Form.CALL]
    match rule:
        case OpCallByKind(kinds):
            return sum(node.kind in kinds for node in calls)
        case OpPredicate(_, ops):
            return sum(not ops or node.op in ops for node in calls)
        case Tagged() | OnlyValid() | OnlyVariants() | Union():
            return sum(most_candidates(inner, graph) for inner in sub_rules(rule))
        case DFPattern(pattern):
            return most_matches(pattern, graph)
        case Host():
            return 0
        case _:
            return inf
