"""The processors of x86 whose code tests run, as far as this one can."""

from tvm.target.codegen import llvm_cpu_has_features

from tests.test_schedule import native

NEEDED = {
    "x86-64": "sse2",
    "haswell": "avx2",
    "skylake-avx512": "avx512bw",
    "alderlake": "avxvnni",
    "icelake-server": "avx512vnni",
    "sapphirerapids": "amx-int8",
}
"""An instruction set that the code for each needs, and that not all have."""


def here(*processors: str) -> tuple[str, ...]:
    """Those of `processors` whose code this one can run."""
    return tuple(each for each in processors if llvm_cpu_has_features(NEEDED[each], native()))
