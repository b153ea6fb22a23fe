"""Kernels are built by any executor, and timed on devices that a tracker lends."""

import json
import math
import os
import resource
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import collage_dsl as collage
from collage_dsl.backends.instructions import hidden, host_cpu, instructions
from collage_dsl.backends.onnxruntime import OnnxRuntime
from collage_dsl.backends.schedule.machine import machine_of
from collage_dsl.backends.tvm import Tvm
from collage_dsl.backends.tvm_target import kernel_target, machine_target
from collage_dsl.cli.failure import CommandError
from collage_dsl.cli.serve import serve_machine
from collage_dsl.cost import CostStore, Infeasible, Refusal, Spread
from collage_dsl.cost.analytic import Rates, keep, rates_context
from collage_dsl.engine.costs import Pricing
from collage_dsl.graph import (
    CandidateKernel,
    Form,
    Graph,
    Kind,
    Measuring,
    Node,
    OpaqueType,
    SubGraph,
    TensorType,
    Toolchain,
    TupleType,
)
from collage_dsl.measuring import remote as remote_module
from collage_dsl.measuring.artifact import Artifact, build_artifact
from collage_dsl.measuring.bounds import lower_bound
from collage_dsl.measuring.cost import MeasuredCost
from collage_dsl.measuring.elsewhere import Elsewhere, OfDask
from collage_dsl.measuring.executors import (
    Answer,
    Fleet,
    Here,
    Lost,
    Memory,
    NoDevice,
    Process,
    answered,
)
from collage_dsl.measuring.key import context_of
from collage_dsl.measuring.machine import Machine, this_machine
from collage_dsl.measuring.overheads import MeasuringError
from collage_dsl.measuring.pace import LONG
from collage_dsl.measuring.process import Failed
from collage_dsl.measuring.remote import RemoteDevice, RemoteError, Tracker, address_of
from collage_dsl.measuring.remote_server import Lane, _serve_session
from collage_dsl.measuring.task import (
    Check,
    InTurn,
    InTurnTask,
    KernelTask,
    Overhead,
    Timing,
    kernel_task,
)
from collage_dsl.measuring.timing import IN_TURN
from collage_dsl.measuring.wire import NotRead, NotSent, text_of, value_of
from collage_dsl.realization.ranges import POSITIVE
from tests.commands import collage as command
from tests.fleet import (
    KEY,
    SERVER_OF_TVM,
    TRACKER,
    LocalFleet,
    free_port,
    is_open,
    local_fleet,
    until,
)
from tests.models import small_convolution
from tests.workers import done

QUICK = Toolchain("quick", compiler="onnxruntime", measure=Measuring(repeats=3))
"""A target whose kernels are built in a moment."""


def kernels(count: int, toolchain: Toolchain = QUICK, width: int = 4) -> list[CandidateKernel]:
    """As many kernels, each of another size."""
    found = []
    for size in range(1, count + 1):
        graph = collage.parse_graph(f"x: f32[{size},{width}]; y = nn.relu(x); return y;")
        found.append(CandidateKernel(graph, SubGraph(graph.set_of("y")), toolchain))
    return found


def task(toolchain: Toolchain = QUICK) -> KernelTask:
    backend = Tvm() if toolchain.compiler is None else OnnxRuntime()
    return kernel_task(kernels(1, toolchain)[0], backend, {})


def backend_of(toolchain: Toolchain) -> Any:
    return OnnxRuntime() if toolchain.compiler else Tvm()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[CostStore]:
    with CostStore(tmp_path / "costs.sqlite") as made:
        yield made


def priced(fleet: Fleet, store: CostStore, asked: Sequence[CandidateKernel]) -> MeasuredCost:
    """All costs, asked for at once."""
    with MeasuredCost(backend_of, store, fleet=fleet) as cost:
        cost.ahead(asked)
        assert all(isinstance(cost(each), float) for each in asked)
    return cost


# What goes to another machine.


def test_a_task_arrives_as_it_was_sent() -> None:
    sent = replace(
        task(Toolchain("t", options={"num_cores": 2, "libs": ["onednn"]}, variants=("direct",))),
        sizes={"n": 4},
        constants=((0, np.array([[1.5, -2]], np.float32)), (1, None)),
        given={2: np.array([3], np.int64), 3: np.array(["a", "b"], object), 4: [None, True]},
        others=1 << 20,
        patience=LONG,
    )

    found = value_of(text_of(sent))

    assert text_of(found) == text_of(sent)
    assert (found.toolchain, found.backend) == (sent.toolchain, sent.backend)
    assert found.patience == LONG
    assert found.toolchain.options == sent.toolchain.options
    np.testing.assert_array_equal(found.constants[0][1], sent.constants[0][1])
    assert found.given[3].tolist() == ["a", "b"]
    assert set(map(str, found.module.functions)) == set(map(str, sent.module.functions))


def test_what_a_kernel_computes_arrives_as_it_was_sent() -> None:
    half, whole = TensorType("float32", (1, 3)), TensorType("float32", (2, 3))
    axes = np.array([1, 0], np.int64)
    split = {"indices_or_sections": (1,), "axis": 0}
    graph = Graph(
        [
            Node("x", Form.INPUT, whole),
            Node("axes", Form.CONSTANT, TensorType("int64", (2,)), value=axes),
            Node("shape", Form.LITERAL, OpaqueType("shape"), value=(1, "n", "float32", 0.5)),
            Node("y", Form.CALL, TupleType((half, half)), (0,), "split", split, Kind.OPAQUE),
            Node("z", Form.PROJECTION, half, (3,), value=1),
        ],
        [4, 0],
        name="kernel",
        output_names=("first", "second"),
    )

    found = value_of(text_of(Check(graph, (1, 0), (0,))))

    assert (found.takes, found.gives) == ((1, 0), (0,))
    assert found.graph.nodes == graph.nodes
    assert [node.form for node in found.graph.nodes] == [node.form for node in graph.nodes]
    np.testing.assert_array_equal(found.graph.nodes[1].value, axes)
    assert [found.graph.nodes[at].value for at in (2, 4)] == [(1, "n", "float32", 0.5), 1]
    assert (found.graph.outputs, found.graph.output_names) == ((4, 0), ("first", "second"))
    assert (found.graph.name, found.graph.returns_tuple) == ("kernel", True)


def test_ranges_of_operands_arrive_as_they_were_sent() -> None:
    graph = collage.parse_graph("x: f32[4]; y = sqrt(x); return y;")
    sent = kernel_task(
        CandidateKernel(graph, SubGraph(graph.set_of("y")), QUICK), OnnxRuntime(), {}
    )

    assert sent.ranges == {0: POSITIVE}
    assert value_of(text_of(sent)).ranges == sent.ranges


SPREAD = Spread(0.5, 1.5, 20, "percentile 20 of CPU times", 0.9)


@pytest.mark.parametrize(
    "answer",
    [
        Timing(1e-6, 2e-7, SPREAD),
        InTurn((Timing(1.0, spread=SPREAD), Timing(2.0))),
        Overhead(1e-6, 2e-6, 1e-3, SPREAD, None),
        Failed("crashed", passing=True),
        Failed("took longer than 2 s", Refusal.TIME),
    ],
)
def test_an_answer_arrives_as_it_was_sent(answer: Answer) -> None:
    found = value_of(text_of(answer))

    assert found == answer
    if isinstance(answer, Failed):
        assert found.kind is answer.kind


def test_short_floats_arrive_as_they_were_sent() -> None:
    import ml_dtypes

    sent = np.array([1.5, -3], ml_dtypes.bfloat16)
    found = value_of(text_of(sent))

    assert found.dtype == sent.dtype
    assert found.tolist() == sent.tolist()


@pytest.mark.parametrize(
    "text",
    [
        '["Popen", {"args": ["true"]}]',
        '["subprocess.Popen", {"args": ["true"]}]',
        '["Toolchain", {"nme": "t"}]',
        '["array", ["object", [1], "gASVIAAAAA=="]]',
        '["array", ["float32", [9], "AAAA"]]',
        '["enum", ["Refusal", "a mood"]]',
        '["enum", ["Signals", 9]]',
        '["graph", [["tuple", []], ["tuple", [7]], "main", true, ["tuple", []]]]',
        "[1, 2, 3]",
        "[",
    ],
)
def test_a_text_that_is_no_task_is_refused(text: str) -> None:
    with pytest.raises(NotRead):
        value_of(text)


def test_what_is_no_data_is_not_sent() -> None:
    with pytest.raises(NotSent, match="a function"):
        text_of({"given": test_what_is_no_data_is_not_sent})


def test_another_version_of_a_backend_is_trouble_of_the_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent = text_of(task())
    monkeypatch.setattr(OnnxRuntime, "version", "2.0")

    with pytest.raises(OSError, match=r"`onnxruntime` is 2\.0, and not onnxruntime 1"):
        value_of(sent)


def test_another_version_of_numpy_is_trouble_of_the_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It might draw other weights than those that were built into the kernel."""
    sent = text_of(task())
    monkeypatch.setattr(np, "__version__", "1.0")

    with pytest.raises(OSError, match=r"numpy, which draws weights, is 1\.0, and not 2"):
        value_of(sent)


# The machine.


def other(**properties: object) -> Machine:
    return replace(this_machine(), **properties)  # type: ignore[arg-type]


def test_costs_of_another_machine_are_kept_apart() -> None:
    toolchain, here = Toolchain("t"), this_machine()
    machines = [here, other(name="Xeon"), other(processor="znver1"), other(tvm="0.28")]
    keys = {context_of(toolchain, Tvm(), machine=each).key for each in machines}

    assert len(keys) == len(machines)
    assert context_of(toolchain, Tvm()) == context_of(toolchain, Tvm(), machine=here)
    assert context_of(toolchain, Tvm(), machine=machines[1]).machine == "Xeon"


def test_kernels_are_built_for_the_processor_of_the_device() -> None:
    there = other(processor="znver1")

    assert machine_target(there.aimed(Toolchain("t")))["mcpu"] == "znver1"
    named = Toolchain("t", options={"mcpu": "skylake"})
    assert there.aimed(named) is named
    assert there.aimed(Toolchain("t", kind="cuda")).options == {}


def test_kernels_have_no_instructions_that_the_device_hides() -> None:
    there = other(processor="znver4", hidden="-avx512f,-avx512bw")

    target = kernel_target(there.aimed(Toolchain("t", options={"mattr": ("+fma4",)})))
    assert list(target.attrs["mattr"]) == ["-avx512f", "-avx512bw", "+fma4"]
    assert "avx2" in instructions(target)
    assert instructions(target).isdisjoint({"avx512f", "avx512bw", "avx512vnni"})
    assert machine_of(target).lanes == 8


def test_this_machine_hides_what_it_does_not_have() -> None:
    """Only processors of AMD of the years 2011 to 2016, such as `bdver2`, have `fma4`."""
    assert "-fma4" in hidden("bdver2")
    assert "-sse2" not in hidden("bdver2")
    assert this_machine().hidden == ",".join(hidden(host_cpu()))


def test_a_machine_says_in_what_it_differs() -> None:
    there = other(processors=99, memory=1)

    assert Machine.from_json(there.to_json()) == there
    assert other(memory=1) == this_machine()
    assert there.difference(this_machine()) == f"processors 99 and {this_machine().processors}"
    with pytest.raises(ValueError, match="no description"):
        Machine.from_json('{"name": "Xeon"}')


# Built in one process, timed in another.


def test_a_kernel_that_was_built_elsewhere_is_timed_here() -> None:
    sent = text_of(task())
    library = done(build_artifact(sent))  # type: ignore[arg-type]
    here = Here()
    try:
        timed = here.measure(Artifact(sent, (library,)), 60, None)
    finally:
        here.stop()

    assert isinstance(timed, Timing)
    assert timed.seconds > 0


def test_kernels_that_were_built_elsewhere_are_timed_in_turn_here() -> None:
    kernels_in_turn = InTurnTask((task(), task(Toolchain("t", measure=Measuring(repeats=3)))))
    fleet = Fleet(Here())
    try:
        timed = answered(fleet, kernels_in_turn, 60)  # type: ignore[arg-type]
    finally:
        fleet.stop()

    assert isinstance(timed, InTurn), timed
    assert len(timed.timings) == 2
    for each in timed.timings:
        assert each.spread is not None
        assert each.spread.method.endswith(IN_TURN)


def limit_of_data(task: str) -> Generator[None, None, int]:
    return resource.getrlimit(resource.RLIMIT_DATA)[0]
    yield


def test_a_process_has_the_memory_that_a_task_may_take() -> None:
    process = Process(limit_of_data)
    try:
        found = [process.answer("", 60, memory) for memory in (1 << 32, 1 << 33, None)]
    finally:
        process.stop()

    assert found == [1 << 32, 1 << 33, this_machine().memory]


@pytest.mark.parametrize(
    ("code", "reason"),
    [("abort()", "crashed (SIGABRT)"), ("for (;;) pause()", "took longer than 2 s")],
)
def test_a_library_that_crashes_or_hangs_fails_alone(
    tmp_path: Path, code: str, reason: str
) -> None:
    source = tmp_path / "bad.c"
    source.write_text(
        "#include <stdlib.h>\n#include <unistd.h>\n"
        f"__attribute__((constructor)) static void run(void) {{ {code}; }}\n"
    )
    library = source.with_suffix(".so")
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True)
    lane = Lane()
    code = library.read_bytes()
    request = {
        "machine": lane.machine.to_json(),
        "limit": 2,
        "memory": None,
        "task": text_of(task()),
        "sizes": [len(code)],
    }

    try:
        answer = json.loads(lane.measure(json.dumps(request), code))
    finally:
        lane.process.stop()

    failed = value_of(answer["answer"])
    assert isinstance(failed, Failed)
    assert failed.reason == reason
    assert failed.kind in (Refusal.CRASH, Refusal.TIME)
    assert not failed.passing


def test_a_device_of_another_kind_says_so() -> None:
    lane = Lane()
    there = other(name="Xeon").to_json()

    answer = lane.measure(json.dumps({"machine": there, "limit": 1, "task": ""}), b"")

    assert json.loads(answer) == {"machine": lane.machine.to_json()}


# Any executor builds.


def test_an_executor_builds_the_kernels(store: CostStore) -> None:
    with ThreadPoolExecutor(2) as threads:
        cost = priced(Fleet(Here(), threads), store, kernels(3))

    assert (cost.counts.found, cost.counts.measured, cost.counts.lost) == (3, 3, 0)


@pytest.mark.slow
def test_processes_of_a_pool_build_the_kernels(store: CostStore) -> None:
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        cost = priced(Fleet(Here(), pool), store, kernels(3))

    assert cost.counts.measured == 3


class Broken(Executor):
    def submit(self, *_: object, **__: object) -> "Future[Any]":  # type: ignore[override]
        future: Future[Any] = Future()
        future.set_exception(RuntimeError("the cluster is gone"))
        return future


def test_an_executor_that_fails_is_no_fault_of_a_kernel(store: CostStore) -> None:
    kernel, *_ = kernels(1)

    with (
        MeasuredCost(backend_of, store, fleet=Fleet(Here(), Broken())) as cost,
        pytest.raises(MeasuringError, match="the cluster is gone"),
    ):
        cost(kernel)

    assert len(store) == 5, "the overheads of both targets, which nobody builds, and the speed"


# Devices that are lost. `Scripted` stands for a fleet; a kernel takes a second each.


class Scripted:
    """Devices that answer as they are told, one answer after the other; then all is fine."""

    def __init__(self, *answers: Answer | Lost, machine: Machine | None = None) -> None:
        self.answers = list(answers)
        self.machine = machine or this_machine()
        self.usual = Timing(1.0)
        self.asked: list[tuple[Artifact, float, Memory]] = []

    def count(self) -> int:
        return 1

    def lent(self) -> Any:
        return nullcontext(self)

    def measure(self, artifact: Artifact, limit: float, memory: Memory) -> Answer:
        self.asked.append((artifact, limit, memory))
        usual = self.usual if artifact.libraries else Overhead(1e-6, 1e-6)
        answer = self.answers.pop(0) if self.answers else usual
        if isinstance(answer, Lost):
            raise answer
        return answer

    def stop(self) -> None:
        return


@pytest.fixture
def nothing_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("collage_dsl.measuring.executors.built", lambda *_: b"library")


def fleet_over(*answers: Answer | Lost) -> tuple[list[Answer], Fleet]:
    fleet = Fleet(Scripted(*answers))
    return [answered(fleet, task(), 60)], fleet  # type: ignore[arg-type]


@pytest.mark.usefixtures("nothing_is_built")
@pytest.mark.parametrize("trouble", [Lost("gone"), Failed("no disk space", passing=True)])
def test_a_kernel_whose_device_is_lost_is_timed_on_another(trouble: Failed | Lost) -> None:
    answers, fleet = fleet_over(trouble, trouble)

    assert answers == [Timing(1.0)]
    assert fleet.lost == 2


@pytest.mark.usefixtures("nothing_is_built")
def test_three_lost_devices_end_the_run_and_blame_no_kernel() -> None:
    (answer,), fleet = fleet_over(*[Lost("10.0.0.5:9091 was lost")] * 3)

    assert answer == Failed(
        "3 devices were tried for one kernel; the last: 10.0.0.5:9091 was lost", passing=True
    )
    assert fleet.lost == 3


@pytest.mark.usefixtures("nothing_is_built")
def test_what_is_wrong_with_a_kernel_is_not_tried_again() -> None:
    answers, fleet = fleet_over(Failed("its results differ"))

    assert answers == [Failed("its results differ")]
    assert fleet.lost == 0


@pytest.mark.usefixtures("nothing_is_built")
@pytest.mark.parametrize("memory", [None, 5 << 30])
def test_builders_and_devices_hear_of_the_memory_that_a_kernel_may_take(
    store: CostStore, monkeypatch: pytest.MonkeyPatch, memory: Memory
) -> None:
    built, devices = [], Scripted(machine=other(memory=7 << 30))

    def build(kernel: str, limit: float, memory: Memory) -> bytes:
        built.append(memory)
        return b"library"

    monkeypatch.setattr("collage_dsl.measuring.executors.built", build)
    with MeasuredCost(backend_of, store, memory=memory, fleet=Fleet(devices)) as cost:
        cost(kernels(1)[0])

    assert built == [memory]
    assert {said for _, _, said in devices.asked} == {memory}
    assert cost.timer.memory == (memory or 7 << 30)


@pytest.mark.usefixtures("nothing_is_built")
def test_kernels_that_may_cost_the_same_are_timed_in_turn_on_one_device(
    store: CostStore,
) -> None:
    spread = replace(SPREAD, method=SPREAD.method + IN_TURN, speed=1.0)
    in_turn = InTurn((Timing(1.0, spread=spread), Timing(1.005, spread=spread)))
    devices = Scripted()
    devices.usual = Timing(1.0, spread=SPREAD)
    others = Toolchain("native", measure=Measuring(repeats=4))
    group = [kernels(1, toolchain)[0] for toolchain in (QUICK, others)]
    with MeasuredCost(backend_of, store, fleet=Fleet(devices)) as cost:
        cost.ahead(group)
        devices.answers = [in_turn]
        groups = [[(each,) for each in group]]
        while cost.settle(groups, groups):
            pass

        assert [cost(each) for each in group] == [pytest.approx(1.005, abs=1e-5)] * 2
    artifact, *_ = devices.asked[-1]
    assert artifact.libraries == (b"library", b"library")
    assert isinstance(value_of(artifact.task), InTurnTask)


@pytest.mark.usefixtures("nothing_is_built")
def test_lower_bounds_are_those_of_the_device(tmp_path: Path) -> None:
    """A model that runs often finds less of its data in a small cache."""
    often = Toolchain("t", measure=Measuring(runs="often"))
    kernel, *_ = kernels(1, often, width=1 << 26)
    bounds = []
    for cache in (1 << 20, 1 << 30):
        fleet = Fleet(Scripted(machine=other(cache=cache)))
        with (
            CostStore(tmp_path / f"{cache}.sqlite") as store,
            MeasuredCost(backend_of, store, fleet=fleet) as cost,
        ):
            bounds.append(lower_bound(cost)(kernel))

    assert bounds[0] > bounds[1] > 0


def test_estimates_are_those_of_the_device(tmp_path: Path) -> None:
    rates = Rates(multiplication=1.0, near=1.0, far=1.0, launch=100.0, cold=0.0)
    path = tmp_path / "costs.sqlite"
    with CostStore(path) as store:
        keep(store, rates_context("Z80", "tvm"), rates)
    kernel, *_ = kernels(1, Toolchain("t"))
    found = []
    for name in ("Z80", "6502"):
        fleet = Fleet(Scripted(machine=other(name=name)))
        with ExitStack() as stack:
            pricing = Pricing(stack, backend_of, path, fleet=lambda fleet=fleet: nullcontext(fleet))
            found.append(pricing.analytic()[0].cost(kernel))

    assert not isinstance(found[0], Infeasible)
    assert found[0] >= 100
    assert isinstance(found[1], float)
    assert math.isnan(found[1])


# A real tracker and real devices.


@pytest.fixture(scope="module")
def one() -> Iterator[LocalFleet]:
    with local_fleet(1) as made:
        yield made


def test_kernels_are_timed_on_a_device_of_a_tracker(one: LocalFleet, store: CostStore) -> None:
    cost = priced(Fleet(Tracker(one.address, KEY)), store, kernels(2))

    assert (cost.counts.measured, cost.counts.infeasible, cost.counts.lost) == (2, 0, 0)
    assert cost.counts.queued > 0
    with MeasuredCost(backend_of, store) as here:
        found = [here.recorded(each) for each in kernels(2)]
    assert found == [cost(each) for each in kernels(2)], "the device is this machine"


def test_a_device_is_free_again_when_its_client_is_gone(one: LocalFleet) -> None:
    tracker = Tracker(one.address, KEY)

    for _ in range(3):
        with tracker.lent() as device:
            assert device.machine() == this_machine()


def test_a_client_that_is_gone_at_once_is_lost() -> None:
    told: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        connection, (address, _) = listener.accept()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()  # The connection is reset, and has no other end any more.
        _serve_session(connection, address, told.append)

    assert [text.partition(":")[0] for text in told] == ["lost 127.0.0.1"]


def test_a_key_without_devices_is_named(one: LocalFleet) -> None:
    with pytest.raises(
        RemoteError, match=r"no device with the key `none`.*collage serve --tracker"
    ):
        Tracker(one.address, "none")


def test_what_is_no_tracker_is_named() -> None:
    with pytest.raises(RemoteError, match="does not answer"):
        Tracker(f"127.0.0.1:{free_port()}", KEY)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

        def answer() -> None:
            client, _ = listener.accept()
            with client:
                client.sendall(b"HTTP")

        with ThreadPoolExecutor(1) as thread:
            thread.submit(answer)
            with pytest.raises(RemoteError, match="no tracker of TVM"):
                Tracker(f"127.0.0.1:{port}", KEY)


@pytest.mark.parametrize("text", ["", "9190", "host", "host:", ":9190", "host:0", "host:x"])
def test_an_address_has_a_host_and_a_port(text: str) -> None:
    with pytest.raises(RemoteError, match="write HOST:PORT"):
        address_of(text)
    assert address_of("[::1]:9190") == ("::1", 9190)


@pytest.mark.slow
def test_a_command_times_on_a_device_of_a_tracker(one: LocalFleet, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(small_convolution(), path)
    options = ("--tracker", one.address, "--key", KEY, "--store", tmp_path / "s.sqlite")

    found = command("plan", path, "-t", "onnxruntime", *options, "--output-format", "json")

    assert found.code == 0, found.err
    counts = json.loads(found.out)["measurements"]
    assert counts["measured"] == counts["found"] > 0
    assert counts["queued"] > 0
    assert counts["lost"] == 0


@pytest.mark.slow
def test_a_model_is_compiled_with_costs_of_a_fleet(one: LocalFleet, tmp_path: Path) -> None:
    where = {"tracker": one.address, "key": KEY, "store": tmp_path / "s.sqlite"}

    compiled = collage.compile(small_convolution(), ["onnxruntime", "native"], **where)

    assert compiled.report.measurements.queued > 0
    assert compiled.report.measurements.infeasible == 0
    assert compiled.report.verification.draws


def test_a_scheduler_needs_a_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)

    with (
        pytest.raises(RemoteError, match=r"needs distributed.*pip install 'collage_dsl\[dask\]'"),
        Elsewhere(scheduler="tcp://127.0.0.1:8786").fleet(),
    ):
        pass


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--tracker", "127.0.0.1:9190"), "given together"),
        (("--key", KEY), "given together"),
        (("--tracker", "nowhere", "--key", KEY), "write HOST:PORT"),
        (("--scheduler", "127.0.0.1:1"), "the scheduler 127.0.0.1:1 does not answer"),
        (("--scheduler", "no://h:1"), "no://h:1 does not answer: unknown address scheme"),
    ],
)
def test_what_is_wrong_with_the_options_is_said(
    monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], said: str
) -> None:
    monkeypatch.setattr("collage_dsl.measuring.elsewhere._CONNECTING", 0.2)
    with pytest.raises(RemoteError, match=said), Elsewhere(*_fields(options)).fleet():
        pass


def test_no_client_is_made_for_a_scheduler_without_a_port(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import distributed

    made: list[object] = []
    monkeypatch.setattr(distributed, "Client", lambda *given, **_: made.append(given))
    with pytest.raises(RemoteError, match="missing port number"):
        Elsewhere(scheduler="nowhere").fleet().__enter__()

    assert not made


def test_a_scheduler_that_is_silent_is_waited_for_only_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("collage_dsl.measuring.elsewhere._CONNECTING", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"

        with (
            pytest.raises(RemoteError, match=f"the scheduler {address} does not answer: .* silent"),
            Elsewhere(scheduler=address).fleet(),
        ):
            pass


def _fields(options: tuple[str, ...]) -> tuple[str | None, ...]:
    given = dict(zip(options[::2], options[1::2], strict=True))
    return given.get("--tracker"), given.get("--key"), given.get("--scheduler")


def test_a_wrong_tracker_ends_a_command_with_one_message(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(small_convolution(), path)

    found = command("compile", path, "-t", "onnxruntime", "-o", tmp_path / "o", "--key", KEY)

    assert found.code == 2
    assert found.err.endswith("Error: --key needs --tracker\n")


@pytest.mark.parametrize(
    ("tracker", "key", "host", "said"),
    [
        ("nowhere", KEY, "127.0.0.1", "write HOST:PORT"),
        ("127.0.0.1:9190", "a b", "127.0.0.1", "no spaces"),
        ("127.0.0.1:9190", "", "127.0.0.1", "at least one character"),
        ("127.0.0.1:9190", KEY, "203.0.113.1", "cannot listen on 203.0.113.1:0"),
    ],
)
def test_a_device_that_cannot_be_offered_says_why(
    tracker: str, key: str, host: str, said: str
) -> None:
    with pytest.raises((CommandError, RemoteError), match=said):
        serve_machine(tracker, key, host, 0, "")


def test_a_model_is_raced_on_the_processor_that_it_is_measured_for(
    one: LocalFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = other(processor="znver1")
    monkeypatch.setattr(Tracker, "_described", lambda _: there)
    where = Elsewhere(one.address, KEY, is_raced=True)

    with pytest.raises(RemoteError, match="a znver1 cannot stand in"), where.fleet():
        pass
    with replace(where, is_raced=False).fleet() as fleet:
        assert fleet is not None
        assert fleet.machine is there


# Devices that are killed.


@pytest.mark.slow
def test_a_device_that_is_killed_in_mid_run_loses_nothing(
    store: CostStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is stopped before it gets a kernel, and killed when it has it: it cannot have answered."""
    ask, killed = RemoteDevice._ask, []

    def asked(device: RemoteDevice, name: str, patience: float, *arguments: object) -> str:
        if name == remote_module.MEASURE and not killed:
            process = both.devices[int(device.address.rpartition(":")[2])]
            killed.append(process)
            process.send_signal(signal.SIGSTOP)
            ThreadPoolExecutor(1).submit(process.kill)
        return ask(device, name, patience, *arguments)

    monkeypatch.setattr(RemoteDevice, "_ask", asked)
    with local_fleet(2) as both:
        cost = priced(Fleet(Tracker(both.address, KEY)), store, kernels(4))
        assert len(killed) == 1
        until(lambda: len(both.ports()) == 1)

    assert cost.counts.lost == 1
    assert (cost.counts.measured, cost.counts.infeasible) == (4, 0)
    with MeasuredCost(backend_of, store) as again:
        assert all(isinstance(again.recorded(each), float) for each in kernels(4))


def children(process: int) -> set[int]:
    """The processes that one has started, and those that they have."""
    found = set()
    for path in Path(f"/proc/{process}/task").glob("*/children"):
        for child in map(int, path.read_text().split()):
            found |= {child} | children(child)
    return found


@pytest.mark.slow
def test_a_device_that_is_killed_leaves_no_process(store: CostStore) -> None:
    with local_fleet(1) as alone:
        priced(Fleet(Tracker(alone.address, KEY)), store, kernels(1))
        (process,) = alone.devices.values()
        below = children(process.pid)
        assert below
        process.kill()
        process.wait()
        until(lambda: not any(os.path.exists(f"/proc/{child}/exe") for child in below))


@pytest.mark.slow
def test_where_no_device_is_left_the_run_ends_and_goes_on_later(store: CostStore) -> None:
    asked = kernels(3)
    with local_fleet(1) as alone:
        tracker = Tracker(alone.address, KEY, patience=2)
        priced(Fleet(tracker), store, asked[:1])
        for process in alone.devices.values():
            process.kill()
        with (
            MeasuredCost(backend_of, store, fleet=Fleet(tracker)) as cost,
            pytest.raises(
                MeasuringError, match="no device with the key `box`: none was left for 2 s"
            ),
        ):
            cost.ahead(asked)
        alone.serve()
        again = priced(Fleet(tracker), store, asked)

    assert (again.counts.reused, again.counts.measured) == (1, 2)
    assert not any(isinstance(again(each), Infeasible) for each in asked)


class Waiting(Executor):
    """As Dask without workers: what it is given waits forever."""

    def submit(self, fn: Any, /, *arguments: Any, **named: Any) -> "Future[Any]":
        return Future()


def test_a_cluster_without_workers_is_not_waited_for() -> None:
    cluster = OfDask(Waiting(), dict, patience=0)

    with pytest.raises(RemoteError, match="the cluster has had no worker for 0 s"):
        cluster.submit(print).result()


@pytest.mark.slow
def test_a_device_that_has_gone_silent_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tracker still names it."""
    with local_fleet(1) as alone:
        tracker = Tracker(alone.address, KEY, patience=2)
        monkeypatch.setattr(remote_module, "_ANSWER", 5.0)
        (process,) = alone.devices.values()
        until(lambda: alone.free() == 1)  # after the tracker was asked for its machine
        process.send_signal(signal.SIGSTOP)

        with pytest.raises(Lost, match="gave no answer for 5 s"), tracker.lent():
            pass
        with pytest.raises(NoDevice, match="none was left for 2 s"), tracker.lent():
            pass
        assert alone.ports()


@pytest.mark.slow
def test_a_tracker_that_starts_again_finds_its_devices() -> None:
    with local_fleet(1) as made:
        made.processes[0].kill()
        made.processes[0].wait()
        made.start(TRACKER, made.port)
        until(lambda: is_open(made.port))
        until(lambda: bool(made.ports()))
        with Tracker(made.address, KEY).lent() as device:
            assert device.machine() == this_machine()


@pytest.mark.slow
def test_a_device_that_was_lent_and_not_used_is_offered_again(one: LocalFleet) -> None:
    tracker = Tracker(one.address, KEY)
    tracker._lease()

    with tracker.lent() as device:
        assert device.machine() == this_machine()


@pytest.mark.slow
def test_devices_that_differ_are_not_mixed(store: CostStore) -> None:
    alien = "from collage_dsl.measuring import machine; machine.cpu_name = lambda: 'Z80';"
    with local_fleet(1) as mixed:
        tracker = Tracker(mixed.address, KEY)
        mixed.serve(before=alien)
        with (
            MeasuredCost(backend_of, store, fleet=Fleet(tracker)) as cost,
            pytest.raises(RemoteError, match=r"differ: name .* and Z80"),
        ):
            cost.ahead(kernels(8))


@pytest.mark.slow
def test_an_rpc_server_of_tvm_alone_is_refused(one: LocalFleet) -> None:
    port = free_port()
    plain = one.start(SERVER_OF_TVM, port, one.port, "plain")
    try:
        until(lambda: port in one.ports())
        with pytest.raises(RemoteError, match="cannot time kernels; start it with: collage serve"):
            Tracker(one.address, "plain")
    finally:
        plain.kill()
        plain.wait()


@pytest.mark.slow
def test_the_same_kernels_cost_about_the_same_here_and_there(
    one: LocalFleet, tmp_path: Path
) -> None:
    """Costs of the two ways are of the same kind; a busy machine doubles some of them."""
    asked = kernels(5, Toolchain("t", measure=Measuring(repeats=40)), width=1 << 20)
    with CostStore(tmp_path / "there") as store:
        there = priced(Fleet(Tracker(one.address, KEY)), store, asked)
    with CostStore(tmp_path / "here") as store, MeasuredCost(backend_of, store) as here:
        ratios = sorted(float(there(each)) / float(here(each)) for each in asked)  # type: ignore[arg-type]

    assert 1 / 3 < ratios[2] < 3


@pytest.mark.slow
def test_a_cluster_of_dask_builds_the_kernels(store: CostStore) -> None:
    import distributed

    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None
        ) as cluster,
        Elsewhere(scheduler=cluster.scheduler_address).fleet() as fleet,
    ):
        assert fleet is not None
        cost = priced(fleet, store, kernels(4))
        with distributed.Client(cluster) as client:
            workers = client.run(_builders)

    assert cost.counts.measured == 4
    assert sum(workers.values()) == sum(1 for made in workers.values() if made), workers
    assert sum(workers.values()) >= 1


def _builders() -> int:
    from collage_dsl.measuring import executors

    return len(executors._every)
