"""
Time what a fleet adds to the timing of a kernel, on the loopback address.

    python benchmarks/fleet.py [--devices 2]

Starts a tracker and devices on this machine, and prints: how long a lease takes with one question
to the device; how many bytes a second arrive there; how many questions a second the tracker
answers; how long one convolution takes to build and to time, and how large its library is; and how
much memory an idle device takes. Seconds are wall time. Ends all processes that it starts.
"""

import argparse
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter

sys.path.append(str(Path(__file__).parent.parent))

import collage_dsl as collage
from collage_dsl.backends.tvm import Tvm
from collage_dsl.graph import CandidateKernel, SubGraph, Toolchain
from collage_dsl.measuring.artifact import Artifact
from collage_dsl.measuring.executors import built, stop_builders
from collage_dsl.measuring.process import Failed
from collage_dsl.measuring.remote import RemoteDevice, Tracker
from collage_dsl.measuring.task import kernel_task
from collage_dsl.measuring.wire import text_of
from tests.fleet import KEY, LocalFleet, local_fleet

_LEASES = 20
_QUESTIONS = 500
_UPLOAD = 16 << 20

_CONVOLUTION = """
x: f32[1,64,56,56]; w = const f32[64,64,3,3]; y = nn.conv2d(x, w) [padding = [1,1,1,1]];
z = nn.relu(y); return z;
"""


def lease(tracker: Tracker) -> float:
    start = perf_counter()
    for _ in range(_LEASES):
        with tracker.lent() as device:
            device.machine()
    return (perf_counter() - start) / _LEASES


def upload(tracker: Tracker) -> float:
    """Bytes a second. The device refuses the request after it has arrived."""
    with tracker.lent() as device:
        start = perf_counter()
        other = '{"machine": "{}"}'
        try:
            device._ask("collage.measure", 600, other, bytes(_UPLOAD))
        except Exception:  # what the device says is of no interest
            return _UPLOAD / (perf_counter() - start)
    raise AssertionError("the device took a request that says nothing")


def questions(tracker: Tracker) -> float:
    with ThreadPoolExecutor(8) as threads:
        start = perf_counter()
        list(threads.map(lambda _: tracker.count(), range(_QUESTIONS)))
        return _QUESTIONS / (perf_counter() - start)


def kernel(device: RemoteDevice) -> tuple[float, float, int]:
    """The seconds to build and to time a kernel when its helpers are there, and its size."""
    graph = collage.parse_graph(_CONVOLUTION)
    candidate = CandidateKernel(
        graph, SubGraph(graph.calls), Toolchain("native", variants=("direct",))
    )
    text = text_of(kernel_task(candidate, Tvm(), {}))
    built(text, 600)
    start = perf_counter()
    library = built(text, 600)
    to_build = perf_counter() - start
    assert not isinstance(library, Failed), library.reason
    device.measure(Artifact(text, (library,)), 600, None)
    start = perf_counter()
    answer = device.measure(Artifact(text, (library,)), 600, None)
    assert not isinstance(answer, Failed), answer.reason
    return to_build, perf_counter() - start, len(library)


def memory(made: LocalFleet) -> float:
    """The resident bytes of an idle device, without the process that times."""
    (process, *_) = made.devices.values()
    pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
    return pages * 4096


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", type=int, default=2)
    with local_fleet(parser.parse_args().devices) as made:
        tracker = Tracker(made.address, KEY)
        print(f"a lease, with one question: {lease(tracker) * 1e3:.1f} ms")
        print(f"upload: {upload(tracker) / 1e6:.0f} MB/s")
        print(f"questions to the tracker: {questions(tracker):.0f} a second")
        print(f"an idle device: {memory(made) / 1e6:.0f} MB")
        with tracker.lent() as device:
            to_build, to_time, size = kernel(device)
        took = f"{to_build:.2f} s to build, {to_time:.2f} s to time"
        print(f"a convolution: {took}, {size / 1e3:.0f} kB")
        stop_builders()


if __name__ == "__main__":
    main()
