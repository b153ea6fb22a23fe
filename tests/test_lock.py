"""A model that is compiled with its lock: the same kernels, and nothing measured."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import numpy_helper

import collage_dsl as collage
from collage_dsl.cost import CostTable
from collage_dsl.engine.lock import Lock
from collage_dsl.engine.locked import LockError
from collage_dsl.engine.replay import replay
from collage_dsl.engine.specs import specs_of
from collage_dsl.graph import CandidateKernel
from tests.commands import said
from tests.models import small_convolution, small_product

TARGETS = ("native", "onnxruntime")


def price(kernel: CandidateKernel) -> float:
    """Convolutions are for onnxruntime, all else is for TVM."""
    ops = kernel.graph.operators(kernel.sub_graph.inside)
    is_for_library = "nn.conv2d" in ops
    return len(ops) * (1e-6 if is_for_library == (kernel.target == "onnxruntime") else 9e-6)


def unknown(kernel: CandidateKernel) -> float:
    raise AssertionError("a frozen model asks for no cost")


def compiled(model: Any, **options: Any) -> collage.Compiled:
    usual = {"cost": price, "plans": 1, "race_seconds": 0.01}
    return collage.compile(model, TARGETS, **{**usual, **options})


@pytest.fixture(scope="module")
def model() -> onnx.ModelProto:
    return small_convolution()


@pytest.fixture(scope="module")
def lock(model: onnx.ModelProto, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("lock") / "model.lock"
    compiled(model).freeze(path)
    return path


def test_a_frozen_model_has_the_same_plan_and_the_same_bytes(
    model: onnx.ModelProto, tmp_path: Path
) -> None:
    first = compiled(model)
    first.freeze(tmp_path / "model.lock")
    first.save(tmp_path / "first")

    again = compiled(model, frozen=tmp_path / "model.lock", cost=unknown)
    again.save(tmp_path / "again")

    assert [k.candidate for k in again.plan.kernels] != []
    assert [k.label for k in again.plan.kernels] == [k.label for k in first.plan.kernels]
    assert [k.target for k in again.plan.kernels] == [k.target for k in first.plan.kernels]
    assert again.report.contenders == []
    assert again.report.verification == first.report.verification
    for name in ("model.so", "signature.json"):
        one, other = ((tmp_path / folder / name).read_bytes() for folder in ("first", "again"))
        assert one == other
    again.freeze(tmp_path / "again.lock")
    assert (tmp_path / "again.lock").read_text() == (tmp_path / "model.lock").read_text()


def test_a_frozen_model_keeps_its_plan_for_each_size(tmp_path: Path) -> None:
    model = small_product()
    shape = tuple(d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim)
    options = {"shapes": {model.graph.input[0].name: ("n", *shape[1:])}, "sizes": {"n": (1, 2)}}
    first = compiled(model, **options)
    first.freeze(tmp_path / "model.lock")

    again = compiled(model, **options, frozen=tmp_path / "model.lock", cost=unknown)

    assert [each.sizes for each in again.report.sizes] == [{"n": 1}, {"n": 2}]
    plans = [[k.nodes for k in each.plan.kernels] for each in first.report.sizes]
    assert [[k.nodes for k in each.plan.kernels] for each in again.report.sizes] == plans
    turned = {"shapes": options["shapes"], "sizes": {"n": (2, 1)}}
    again = compiled(model, **turned, frozen=tmp_path / "model.lock", cost=unknown)
    assert [each.sizes for each in again.report.sizes] == [{"n": 2}, {"n": 1}]
    assert [[k.nodes for k in each.plan.kernels] for each in again.report.sizes] == plans[::-1]
    with pytest.raises(LockError, match=r"for the sizes any, n=1, n=2, not any: give the same"):
        compiled(model, shapes=options["shapes"], frozen=tmp_path / "model.lock")


def test_a_model_without_kernels_is_frozen(tmp_path: Path) -> None:
    text = '<ir_version: 8, opset_import: ["": 17]> g (float[3] x) => (float[3] y) {y=Identity(x)}'
    model = onnx.parser.parse_model(text)
    compiled(model).freeze(tmp_path / "model.lock")

    again = compiled(model, frozen=tmp_path / "model.lock", cost=unknown)

    assert again.plan.kernels == ()
    x = np.ones(3, np.float32)
    np.testing.assert_array_equal(again.run({"x": x})["y"], x)


def other_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    result = onnx.ModelProto()
    result.CopyFrom(model)
    weights = result.graph.initializer[0]
    array = numpy_helper.to_array(weights).copy()
    array.flat[0] += np.float32(1)
    weights.CopyFrom(numpy_helper.from_array(array, weights.name))
    return result


def test_a_lock_of_another_model_is_refused(model: onnx.ModelProto, lock: Path) -> None:
    with pytest.raises(LockError, match=r"the model, or a shape .* freeze the model anew$"):
        compiled(other_weights(model), frozen=lock)


def test_a_lock_for_other_targets_is_refused(model: onnx.ModelProto, lock: Path) -> None:
    with pytest.raises(LockError, match="tvm, onnxruntime, in this order, not onnxruntime, tvm"):
        collage.compile(model, ["onnxruntime", "native"], frozen=lock)
    native, library = specs_of(TARGETS)
    from dataclasses import replace

    changed = replace(native, target=replace(native.target, options={"num_cores": 7}))
    with pytest.raises(LockError, match=r"`tvm` .* then, `.*num_cores: 7.*` now\)"):
        collage.compile(model, [changed, library], frozen=lock)


def broken(change: Callable[[dict[str, Any]], object], lock: Path) -> Lock:
    content = json.loads(lock.read_text())
    change(content)
    return Lock.model_validate(content)


def kernel_of(target: str, lock: dict[str, Any]) -> dict[str, Any]:
    kernels: list[dict[str, Any]] = lock["plans"][0]["kernels"]
    return next(each for each in kernels if each["target"] == target)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda lock: lock["versions"].update(dict.fromkeys(lock["versions"], "0.1")),
            r"the version of \w+ was 0\.1 and is .*: install that version, or freeze",
        ),
        (
            lambda lock: lock["processors"].update(tvm="z80"),
            "the processor of tvm was z80 and is .*: use such a machine, or freeze",
        ),
        (
            lambda lock: lock["versions"].update(none="1"),
            "the lock has the versions of .*none, and its kernels are made by .*: the lock was",
        ),
        (lambda lock: lock["plans"][0]["kernels"].pop(), "no kernel of the lock has the node `"),
        (
            lambda lock: lock["plans"][0]["kernels"].append(lock["plans"][0]["kernels"][0]),
            "two kernels of the lock have the node `",
        ),
        (
            lambda lock: lock["plans"][0]["kernels"][0]["nodes"].append("x"),
            "a kernel of the lock has the node `x`, which is no call: the lock was changed; freeze",
        ),
        (
            lambda lock: lock["plans"][0].update(chosen="nobody"),
            "the lock has a plan `nobody` of no target: the lock was changed; freeze",
        ),
        (
            lambda lock: lock["plans"][0]["kernels"][0].update(nodes=["nobody"]),
            "a kernel has the node `nobody`, which the model does not have: the lock was changed",
        ),
        (
            lambda lock: lock["plans"][0]["kernels"][0].update(target="nobody"),
            "a kernel is of `nobody`, which is no target: the lock was changed; freeze",
        ),
        (
            lambda lock: kernel_of("tvm", lock).update(variants=["none"]),
            "cannot be built: the backend tvm has no variant none; freeze the model anew",
        ),
        (
            lambda lock: lock["plans"][0]["kernels"][-1].update(variants=["winograd4"]),
            "a kernel of the lock cannot be built: .*; freeze the model anew",
        ),
        (
            lambda lock: kernel_of("tvm", lock).update(
                variants=["tuned"], record='["0", "{}", "0", "[]"]'
            ),
            "cannot be built: tuned: the record of tuning is for another function; freeze",
        ),
    ],
)
def test_a_lock_that_does_not_fit_says_why(
    model: onnx.ModelProto, lock: Path, change: Callable[[dict[str, Any]], object], said: str
) -> None:
    with pytest.raises(LockError, match=said):
        compiled(model, frozen=broken(change, lock))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is no lock: it is not JSON; `collage freeze` writes locks$"),
        ('{"version": 2}', "is no lock: version: this should be 1"),
        ('{"model": ""}', "is no lock: targets: this field is missing"),
    ],
)
def test_a_file_that_is_no_lock_is_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "model.lock"
    path.write_text(text)

    with pytest.raises(LockError, match=said):
        Lock.load(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(LockError, match="it is no text in UTF-8"):
        Lock.load(path)
    missing = r"cannot read the lock .*none\.lock: there is no such file; `collage freeze`"
    with pytest.raises(LockError, match=missing):
        Lock.load(tmp_path / "none.lock")


def test_the_commands_freeze_and_compile(tmp_path: Path) -> None:
    model, lock, store = tmp_path / "small.onnx", tmp_path / "a.lock", tmp_path / "costs.sqlite"
    onnx.save(small_product(), model)
    both = ("-t", "native", "-t", "onnxruntime")

    frozen = said("freeze", model, *both, "--store", store, "-o", lock)
    assert frozen.code == 0, frozen.err
    assert f"written to {lock}" in frozen.out
    saved = [
        said("compile", model, *both, "--store", other, "--frozen", lock, "-o", folder)
        for other, folder in ((store, tmp_path / "a"), (tmp_path / "new.sqlite", tmp_path / "b"))
    ]

    assert [done.code for done in saved] == [0, 0]
    assert all("as it was frozen" in done.out for done in saved)
    assert not any("measured now" in done.out for done in saved)
    assert not (tmp_path / "new.sqlite").exists()
    one, other = ((tmp_path / folder / "model.so").read_bytes() for folder in "ab")
    assert one == other
    refused = said("compile", model, "-t", "native", "--frozen", lock, "-o", tmp_path / "c")
    assert refused.code == 1
    assert refused.err.endswith(
        "error: the lock is for the targets tvm, onnxruntime, in this order, not tvm: give the "
        "same targets in the same order, or freeze the model anew\n"
    )
    assert not (tmp_path / "c").exists()


def test_a_search_with_recorded_costs_finds_the_same_kernels(
    model: onnx.ModelProto, lock: Path
) -> None:
    kept = Lock.load(lock)

    (found,) = replay(model, specs_of(TARGETS), kept)

    assert isinstance(found.plan, collage.Plan)
    assert found.chosen == kept.plans[0].chosen
    assert found.differences == []
    assert len(found.plan.kernels) == len(kept.plans[0].kernels)
    assert found.plan.cost == pytest.approx(sum(each.cost for each in kept.plans[0].kernels))
    with pytest.raises(LockError, match=r"the model, or a shape .* freeze the model anew$"):
        replay(other_weights(model), specs_of(TARGETS), kept)


def make_dear(content: dict[str, Any]) -> None:
    """Raise the costs of the kernels that were chosen."""
    (plan,) = content["plans"]
    chosen = [(each["target"], each["nodes"]) for each in plan["kernels"]]
    for each in plan["costs"]:
        if (each["target"], each["nodes"]) in chosen:
            each["seconds"] = 1.0


def test_a_search_with_other_costs_says_which_kernels_are_others(
    model: onnx.ModelProto, lock: Path
) -> None:
    (found,) = replay(model, specs_of(TARGETS), broken(make_dear, lock))
    assert isinstance(found.plan, collage.Plan)
    assert found.differences
    assert set(found.differences) <= {kernel.label for kernel in found.plan.kernels}


def test_a_refined_plan_is_compared_with_the_best_one_by_costs(
    model: onnx.ModelProto, lock: Path
) -> None:
    kept = broken(lambda content: content["plans"][0].update(chosen="refined"), lock)

    (found,) = replay(model, specs_of(TARGETS), kept)

    assert isinstance(found.plan, collage.Plan)
    best = min(replayed_cost(model, lock, name) for name in ("mixed", "tvm", "onnxruntime"))
    assert found.plan.cost == best


def replayed_cost(model: onnx.ModelProto, lock: Path, chosen: str) -> float:
    kept = broken(lambda content: content["plans"][0].update(chosen=chosen), lock)
    (found,) = replay(model, specs_of(TARGETS), kept)
    assert isinstance(found.plan, collage.Plan)
    return found.plan.cost


def test_a_plan_of_no_target_is_refused(model: onnx.ModelProto, lock: Path) -> None:
    kept = broken(lambda content: content["plans"][0].update(chosen="mixed 1"), lock)

    with pytest.raises(LockError, match="a plan `mixed 1` of no target"):
        replay(model, specs_of(TARGETS), kept)


def test_a_kernel_that_was_not_priced_is_infeasible(model: onnx.ModelProto, lock: Path) -> None:
    kept = broken(lambda content: content["plans"][0].pop("costs"), lock)

    with pytest.raises(collage.UncoveredError, match="not priced when the model was frozen"):
        replay(model, specs_of(TARGETS), kept)


def test_the_commands_freeze_and_replay(tmp_path: Path) -> None:
    model, lock = tmp_path / "small.onnx", tmp_path / "a.lock"
    onnx.save(small_convolution(), model)
    both = ("-t", "native", "-t", "onnxruntime")
    assert said("freeze", model, *both, "--costs", "analytic", "-o", lock).code == 0

    same = said("replay", lock, model, *both)
    assert same.code == 0, same.err
    assert same.out.endswith("the kernels that were frozen\n")
    content = json.loads(lock.read_text())
    make_dear(content)
    lock.write_text(json.dumps(content))

    other = said("replay", lock, model, *both, "--output-format", "json")
    assert other.code == 1
    (plan,) = json.loads(other.out)["plans"]
    assert plan["differences"]
    assert plan["reason"] == ""


def test_a_table_of_costs_gives_the_same_lock(tmp_path: Path) -> None:
    (tmp_path / "costs.yaml").write_text("tvm: {ops: {'*': 1.0e-6}}")
    table = CostTable.load(tmp_path / "costs.yaml")
    native = specs_of(["native"])
    options: dict[str, Any] = {"cost": table, "plans": 1, "race_seconds": 0.01}
    locks = [collage.compile(small_convolution(), native, **options).lock().text() for _ in "ab"]

    assert locks[0] == locks[1]
