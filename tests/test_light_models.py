"""Every light model, compiled for both shipped targets and verified. Takes minutes."""

from pathlib import Path

import pytest

import collage_dsl as collage
from collage_dsl.frontend.light import light_model, light_models
from collage_dsl.resources import folder


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Shared, since the models have kernels in common."""
    return tmp_path_factory.mktemp("store") / "costs.sqlite"


@pytest.mark.slow
@pytest.mark.parametrize("name", light_models())
def test_a_light_model_compiles_and_is_no_slower_than_on_one_target(name: str, store: Path) -> None:
    specs = [folder("specs") / f"{spec}.collage" for spec in ("native", "onnxruntime")]

    report = collage.compile(light_model(name), specs, store=store).report

    measured = {c.name: c.measured for c in report.contenders if c.measured}
    kept = measured[report.chosen]
    assert {"mixed", "tvm", "onnxruntime"} <= set(measured)
    assert report.verification is not None
    assert report.verification.error <= 1e-4
    assert all(kept.seconds <= other.seconds + other.spread for other in measured.values())


def test_all_light_models_are_among_those_compiled() -> None:
    assert len(light_models()) == 9
