"""What is known of the results of operators, without TVM."""

import pytest

from collage_dsl.language.reasoning.claims.relations import (
    Claim,
    broadcasts,
    keeps_dtype,
    keeps_shape,
)
from collage_dsl.language.reasoning.findings import examination
from collage_dsl.language.reasoning.values.facts import ELEMENTS, Facts
from collage_dsl.language.reasoning.values.terms import Term
from collage_dsl.rules.condition import Bytes, DimAt, Dtype, Rank, Size
from tests.cases import slow
from tests.corpus import PAGES, findings, mistakes

OF_DTYPES = (Dtype, Bytes, *ELEMENTS)
OF_SHAPES = (Rank, DimAt, Size, Bytes, *ELEMENTS)
ASKED_BY = {"shapes": OF_SHAPES[:3], "dtypes": OF_DTYPES[:1], "all": (*OF_SHAPES, Dtype)}


@pytest.mark.parametrize(
    ("op", "dtype", "shape", "is_broadcast"),
    [
        ("nn.relu", True, True, False),
        ("nn.softmax", True, True, False),
        ("astype", False, True, False),
        ("nn.dropout", False, False, False),
        ("add", True, False, True),
        ("equal", False, False, True),
        ("outer", True, False, False),
        ("matmul", False, False, False),
        ("onnx.Celu", False, True, False),
        ("onnx.Softmax", False, True, False),
        ("onnx.Mod", False, False, True),
        ("onnx.Transpose", False, False, False),
    ],
)
def test_results_are_like_operands(op: str, dtype: bool, shape: bool, is_broadcast: bool) -> None:
    assert (keeps_dtype(op), keeps_shape(op), broadcasts(op)) == (dtype, shape, is_broadcast)


@pytest.mark.parametrize("every", [20, slow(5)])
def test_relations_ask_only_what_they_say_they_ask(
    every: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relation is not applied again when more is known of what it does not ask about."""
    asked: list[tuple[Claim, Term]] = []
    applied: list[Claim] = []
    depth = 0
    first, again, set_ = Facts.first, Claim.again, Facts.set

    def first_term(facts: Facts, term: Term) -> Term:
        if applied and not depth:
            asked.append((applied[-1], term))
        return first(facts, term)

    def apply(claim: Claim, facts: Facts) -> None:
        applied.append(claim)
        again(claim, facts)
        applied.pop()

    def store(facts: Facts, term: Term, values: object) -> None:
        nonlocal depth  # what follows from a new fact is no question of the relation
        depth += 1
        set_(facts, term, values)  # type: ignore[arg-type]
        depth -= 1

    monkeypatch.setattr(examination, "_CLEAN", {})
    findings.cache_clear()  # what other tests have asked for before
    monkeypatch.setattr(Facts, "first", first_term)
    monkeypatch.setattr(Facts, "set", store)
    monkeypatch.setattr(Claim, "again", apply)
    for page in PAGES[::every]:
        for mistake in mistakes(page):
            findings(mistake.text)

    wrong = {
        (claim.relation.says, type(term).__name__)
        for claim, term in asked
        if isinstance(term, OF_SHAPES + OF_DTYPES)
        and not isinstance(term, ASKED_BY[claim.relation.asks])
    }

    assert len(asked) > 10_000
    assert wrong == set()
