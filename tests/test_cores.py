"""Kernels on several cores: whose threads run them, and what else these threads do."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import onnxruntime
import pytest
import tvm
import tvm_ffi
from tvm import relax, tirx
from tvm.tirx import ForKind

from collage_dsl.backends.runtime.cores import on_cores
from collage_dsl.backends.schedule import schedule
from collage_dsl.backends.schedule.loops import parallel
from collage_dsl.realization.saving import save
from tests.cases import slow
from tests.shared_loops import CORES, executable, helpers, inputs, seconds_of
from tests.test_schedule import fused

NATIVE = {"kind": "llvm", "num-cores": 2}


def fresh_process(script: str, *arguments: object, **environment: str) -> Any:
    """What `script` prints as JSON in a new process, which has started no thread yet."""
    tests = Path(__file__).parent
    done = subprocess.run(
        [sys.executable, "-c", dedent(script), *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": str(tests.parent)} | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


# Which threads there are.


def test_one_core_starts_no_thread_and_two_start_one() -> None:
    found = fresh_process("""
        import json
        from tests.shared_loops import executable, helpers, inputs

        counts = []
        for cores in (1, 2):
            model = executable(cores)
            for _ in range(3):
                model.run(inputs())
            counts.append(len(helpers()))
        print(json.dumps(counts))
    """)

    assert found == [0, CORES - 1]


@pytest.mark.parametrize(
    "environment",
    [
        slow({}),
        slow({"TVM_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}),
        slow({"TVM_NUM_THREADS": "8", "TVM_BIND_THREADS": "1"}),
        {"TVM_BIND_THREADS": "1", "TVM_THREAD_POOL_SPIN_COUNT": "100000000"},
    ],
)
def test_threads_sleep_and_are_not_bound_whatever_the_environment_says(
    environment: Mapping[str, str],
) -> None:
    found = fresh_process(
        """
        import json, os, time
        from tests.shared_loops import affinities, executable, helpers, inputs

        allowed = os.sched_getaffinity(0)
        model = executable(2)
        before = len(affinities())
        model.run(inputs())
        start = time.process_time()
        time.sleep(0.3)
        idle = time.process_time() - start
        print(json.dumps([len(helpers()), len(affinities()) - before, idle, *(
            each == allowed for each in affinities())]))
        """,
        **environment,
    )

    count, started, idle, *as_before = found
    assert count == started == CORES - 1
    assert idle < 0.03
    assert all(as_before)


def test_a_saved_model_brings_its_threads_and_needs_no_compiler(tmp_path: Path) -> None:
    model = executable(2)
    save(model, tmp_path / "out", {})

    count, matches = fresh_process(
        """
        import json, sys
        import numpy as np
        from collage_dsl import load_executable
        from tests.shared_loops import helpers, inputs

        model = load_executable(sys.argv[1])
        y = model.run(inputs())["y"]
        print(json.dumps([len(helpers()), bool(np.array_equal(y, np.load(sys.argv[2])))]))
        """,
        tmp_path / "out",
        _stored(tmp_path, model.run(inputs())["y"]),
        CXX="/nowhere/c++",
        XDG_CACHE_HOME=str(tmp_path / "cache"),
    )

    assert count == CORES - 1
    assert matches


def test_a_measured_kernel_gets_the_same_threads() -> None:
    found = fresh_process("""
        import json
        import numpy as np
        from collage_dsl import parse_graph
        from collage_dsl.backends.tvm import Tvm
        from collage_dsl.graph import CandidateKernel, SubGraph, Toolchain
        from collage_dsl.measuring.built import built
        from collage_dsl.measuring.task import kernel_task
        from tests.shared_loops import TEXT, helpers

        counts = []
        for cores in (1, 2):
            graph = parse_graph(TEXT)
            target = Toolchain("tvm", options={"num_cores": cores})
            kernel = CandidateKernel(graph, SubGraph(graph.calls), target)
            task = kernel_task(kernel, Tvm(), {})
            built(task, np.random.default_rng(0)).run()
            counts.append(len(helpers()))
        print(json.dumps(counts))
    """)

    assert found == [0, CORES - 1]


def test_a_thread_leaves_the_processor_of_the_caller() -> None:
    """Where Linux would keep it, as if no other processor were idle."""
    model = executable(2)
    model.run(inputs())
    allowed = os.sched_getaffinity(0)
    thread = helpers()[0] if CORES > 1 else threading.get_native_id()

    for _ in range(1000):
        os.sched_setaffinity(0, {min(allowed)})
        if CORES > 1:
            os.sched_setaffinity(thread, {min(allowed)})
        os.sched_setaffinity(0, allowed)
        model.run(inputs())
        if os.sched_getaffinity(thread) == allowed:
            break
        time.sleep(0.001)

    assert os.sched_getaffinity(thread) == allowed


def test_the_child_of_a_fork_starts_its_own() -> None:
    found = fresh_process("""
        import json, os
        import numpy as np
        from tests.shared_loops import executable, helpers, inputs

        model = executable(2)
        expected = model.run(inputs())["y"]
        child = os.fork()
        if child == 0:
            same = np.array_equal(model.run(inputs())["y"], expected)
            os._exit(len(helpers()) if same else 100)
        print(json.dumps(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])))
    """)

    assert found == CORES - 1


# Which loops are shared.


@pytest.mark.parametrize(("rows", "is_shared"), [(8, False), (4000, True)])
def test_only_a_loop_with_enough_work_is_shared(rows: int, is_shared: bool) -> None:
    func = fused([(rows, 64)], lambda emit, x: relax.op.nn.softmax(x))

    scheduled = schedule(func, target=tvm.target.Target(NATIVE))

    assert bool(shared_loops(scheduled)) == is_shared


def test_no_loop_is_shared_on_one_core() -> None:
    func = fused([(4000, 64)], lambda emit, x: relax.op.nn.softmax(x))

    scheduled = schedule(func, target=tvm.target.Target(NATIVE | {"num-cores": 1}))

    assert not shared_loops(scheduled)


def test_a_buffer_is_allocated_for_a_part_of_a_loop_and_not_for_each_index() -> None:
    """Otherwise a softmax of many short rows is slower on two cores than on one."""
    func = fused([(4000, 64)], lambda emit, x: relax.op.nn.softmax(x))
    target = tvm.target.Target(NATIVE)

    (part,) = shared_loops(schedule(func, target=target))

    assert int(part.extent) == 16
    assert isinstance(part.body, tirx.For)


def shared_loops(func: Any) -> list[Any]:
    found: list[Any] = []
    tvm_ffi.structural_walk(func.body, (tirx.For, found.append))
    return [loop for loop in found if loop.kind == ForKind.PARALLEL]


# What they do.


def test_two_cores_give_what_one_gives() -> None:
    one, two = executable(1).run(inputs()), executable(2).run(inputs())

    assert np.array_equal(one["y"], two["y"])


def test_each_core_does_a_part_of_a_loop() -> None:
    threads: set[int] = set()

    def note(_: int) -> None:
        threads.add(threading.get_native_id())
        time.sleep(0.01)

    run = on_cores(loop_of(40, note), 2)
    run()

    assert len(threads) == CORES
    assert threading.get_native_id() in threads


@pytest.mark.parametrize("extent", [2, 3, 7, 16, 17, 31, 32, 100])
def test_each_index_is_visited_once(extent: int) -> None:
    seen: list[int] = []

    on_cores(loop_of(extent, seen.append), 2)()

    assert sorted(seen) == list(range(extent))


def test_without_cores_tvm_runs_the_loop_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TVM_BIND_THREADS", "0")  # or this thread would stay bound
    monkeypatch.setenv("TVM_THREAD_POOL_SPIN_COUNT", "0")
    seen: list[int] = []
    on_cores(loop_of(4, seen.append), 2)()
    seen.clear()
    started = set(helpers())

    loop_of(17, seen.append)()

    assert sorted(seen) == list(range(17))
    assert set(helpers()) == started


def test_an_error_on_any_core_reaches_the_caller() -> None:
    caller = threading.get_native_id()
    elsewhere = threading.Event()

    def fail_elsewhere(_: int) -> None:
        if threading.get_native_id() != caller:
            elsewhere.set()
            raise ValueError("not here")
        elsewhere.wait(1.0 if CORES > 1 else 0.0)
        if CORES == 1:
            raise ValueError("not here")

    with pytest.raises(ValueError, match="not here"):
        on_cores(loop_of(20, fail_elsewhere), 2)()


def test_many_callers_share_the_threads_and_get_their_own_results() -> None:
    model, alone = executable(2), executable(1)
    given = [inputs(seed) for seed in range(6)]
    expected = [alone.run(each)["y"] for each in given]

    with ThreadPoolExecutor(6) as callers:
        for found in callers.map(lambda _: [model.run(each)["y"] for each in given], range(24)):
            assert all(np.array_equal(f, e) for f, e in zip(found, expected, strict=True))

    assert len(helpers()) == CORES - 1


def test_the_threads_sleep_between_calls() -> None:
    model = executable(2)
    model.run(inputs())

    start = time.process_time()
    time.sleep(0.3)

    assert time.process_time() - start < 0.03


def test_the_threads_take_no_time_from_onnxruntime() -> None:
    """It is called between our own calls, as in a plan of several targets."""
    model, library = executable(2), onnxruntime_product()
    spent = 0.0
    for _ in range(20):
        model.run(inputs())
        before = sum(map(seconds_of, helpers()))
        library()
        spent += sum(map(seconds_of, helpers())) - before

    assert spent < 20 * 0.001


def onnxruntime_product() -> Callable[[], object]:
    """A matrix product of about ten milliseconds, on two threads."""
    from onnx import TensorProto, helper

    types = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [768, 768]) for n in "aby"]
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["a", "b"], ["y"])], "g", types[:2], types[2:]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    feeds = {name: np.ones((768, 768), np.float32) for name in "ab"}
    return lambda: session.run(None, feeds)


def loop_of(extent: int, body: Callable[[int], Any]) -> Any:
    """A compiled loop, shared among two cores, which calls `body` for each index."""
    name = f"test.cores.{body.__name__}.{extent}"
    tvm.register_global_func(name, body, override=True)
    loop = parallel(extent, 2, lambda i: tirx.Evaluate(tirx.call_packed(name, i)))
    assert loop.kind == ForKind.PARALLEL
    func = tirx.PrimFunc([], loop).with_attr("global_symbol", "main")
    return tvm.compile(tvm.IRModule({"main": func}), target=tvm.target.Target(NATIVE))["main"]


def _stored(folder: Path, array: np.ndarray[Any, Any]) -> Path:
    np.save(folder / "expected.npy", array)
    return folder / "expected.npy"
