"""Every light model, compiled for both shipped targets and verified. Takes minutes."""

from pathlib import Path

import pytest

import collage_dsl as collage
from collage_dsl.cost.spread import are_equal
from collage_dsl.frontend.light import light_model, light_models
from collage_dsl.graph.measuring import Measuring
from collage_dsl.report.documents import ContenderDocument
from collage_dsl.resources import folder

MARGIN = Measuring().noise_margin
"""Of the shipped targets: times that differ by less count as equal."""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Shared, since the models have kernels in common."""
    return tmp_path_factory.mktemp("store") / "costs.sqlite"


@pytest.mark.slow
@pytest.mark.parametrize("name", light_models())
def test_a_light_model_compiles_and_is_no_slower_than_on_one_target(name: str, store: Path) -> None:
    specs = [folder("specs") / f"{spec}.collage" for spec in ("native", "onnxruntime")]

    report = collage.compile(light_model(name), specs, store=store).report

    raced = {c.name: c for c in report.contenders if c.measured}
    kept = raced[report.chosen]
    assert {"mixed", "tvm", "onnxruntime"} <= set(raced)
    assert report.verification is not None
    assert report.verification.error <= 1e-4
    assert [other.name for other in raced.values() if is_faster(other, kept)] == []


def is_faster(one: ContenderDocument, other: ContenderDocument) -> bool:
    """Whether one plan was faster than another by more than noise."""
    assert one.measured
    assert one.interval
    assert other.measured
    assert other.interval
    is_apart = one.interval[1] < other.interval[0]
    return is_apart and not are_equal(one.measured.seconds, other.measured.seconds, MARGIN)


def test_all_light_models_are_among_those_compiled() -> None:
    assert len(light_models()) == 9
