"""
Whether kernels that are timed in turn take what each takes alone.

    python benchmarks/in_turn.py [MODEL] [--kernels N]

About N native kernels (default 16) of a model of `suite.py` (default: shufflenet) are timed alone,
in turn with the others, and in turn without the runs that are not timed. The last line says how
much longer they take in turn, the median of all.
"""

import argparse

import numpy as np
import suite

import collage_dsl as collage
from collage_dsl.backends.tvm import Tvm
from collage_dsl.measuring.footprint import displaced, footprint
from collage_dsl.measuring.task import kernel_task
from collage_dsl.measuring.timing import Timed, low, times_in_turn
from collage_dsl.measuring.work import prepared

ROUNDS = 50


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", nargs="?", default="shufflenet")
    parser.add_argument("--kernels", type=int, default=16)
    given = parser.parse_args()
    graph = collage.from_onnx(suite.model(given.model))
    others = displaced(footprint(graph, {}))
    proposed = collage.propose(graph, collage.gather({"kind": "llvm"}))
    chosen = proposed[:: -(-len(proposed) // given.kernels)]
    tasks = [kernel_task(each, Tvm(), {}, others=others) for each in chosen]
    timed = [prepared(task).timed for task in tasks]
    alone = [low(times_in_turn([each])[0][0]) for each in timed]
    in_turn = list(map(low, times_in_turn(timed)[0]))
    at_once = _at_once(timed)
    print("| kernel | alone | in turn | without runs that are not timed |")
    print("|---|---:|---:|---:|")
    for kernel, *seconds in zip(chosen, alone, in_turn, at_once, strict=True):
        print(f"| {kernel.label} | {' | '.join(f'{each * 1e6:.1f} us' for each in seconds)} |")
    ratios = [np.median(np.divide(each, alone)) for each in (in_turn, at_once)]
    print(
        "\nin turn, they take {:.2f} times as long as alone; at once, {:.2f} times".format(*ratios)
    )


def _at_once(every: list[Timed]) -> list[float]:
    """What calls take in turn that run once before they are timed."""
    rounds = [[each.taken() for each in every] for _ in range(ROUNDS)]
    return [low(times) for times in zip(*rounds, strict=True)]


if __name__ == "__main__":
    main()
