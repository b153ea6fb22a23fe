"""The module class that carries a library's kernel, and how its code is compiled."""

import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax

from collage_dsl.backends.runtime import build

Array = np.ndarray[Any, Any]
Engine = Callable[[str, bytes, Mapping[str, Any]], Callable[..., None]]

RNG = np.random.default_rng(7)
LLVM = tvm.target.Target({"kind": "llvm"})


@pytest.fixture
def engine(request: pytest.FixtureRequest) -> Iterator[tuple[str, list[str]]]:
    """The name of an engine that adds its constants to the input, and who asked for it."""
    name, asked = f"test.{request.node.name}", list[str]()

    def add_constants(symbol: str, payload: bytes, constants: Mapping[str, Any]) -> Any:
        asked.append(f"{symbol} {payload.decode()} {','.join(constants)}")
        arrays = [np.from_dlpack(constant) for constant in constants.values()]

        def run(x: Any, y: Any) -> None:
            np.from_dlpack(y)[...] = sum(arrays, np.from_dlpack(x))

        return run

    tvm_ffi.register_global_func(f"collage.engine.{name}", add_constants)
    yield name, asked
    tvm_ffi.registry.remove_global_func(f"collage.engine.{name}")


def f32(*shape: int) -> Array:
    return RNG.normal(size=shape).astype(np.float32)


def executable(kernel: Any, *shape: int) -> Any:
    """exp(kernel(x)): the exponential is TVM's own."""
    type_ = relax.TensorType(shape, "float32")
    x = relax.Var("x", type_)
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        y = builder.emit(relax.op.call_dps_packed("kernel", [x], out_ty=type_))
        builder.emit_func_output(builder.emit(relax.op.exp(y)))
    return tvm.compile(builder.get().with_attr("external_mods", [kernel]), LLVM)


def run(module: Any, x: Array) -> Array:
    machine = relax.VirtualMachine(module, tvm.cpu())
    return machine["main"](tvm.runtime.tensor(x)).numpy()  # type: ignore[no-any-return]


# ---- The module ----


def test_the_engine_gets_what_the_module_was_made_of(engine: tuple[str, list[str]]) -> None:
    name, asked = engine
    x, a, b = f32(3, 5), f32(3, 5), f32(5)
    y = tvm.runtime.empty((3, 5), "float32")

    module = build.make_module("kernel", name, b"payload", {"a": a, "b": b})
    module["kernel"](tvm.runtime.tensor(x), y)

    assert asked == ["kernel payload a,b"]
    np.testing.assert_allclose(y.numpy(), x + a + b, rtol=1e-6)


def test_the_module_has_no_other_function(engine: tuple[str, list[str]]) -> None:
    module = build.make_module("kernel", engine[0], b"", {})

    assert module.implements_function("kernel")
    assert not module.implements_function("other")
    assert engine[1] == []


def test_the_engine_is_asked_once_however_many_threads_look_up(
    engine: tuple[str, list[str]],
) -> None:
    module = build.make_module("kernel", engine[0], b"", {"a": f32(4)})

    with ThreadPoolExecutor(8) as pool:
        functions = list(pool.map(module.get_function, ["kernel"] * 32))

    assert len(engine[1]) == 1
    assert all(function.same_as(functions[0]) for function in functions)


@pytest.mark.parametrize(
    "constant",
    [
        pytest.param(f32(3, 1000, 1000), id="megabytes"),
        pytest.param(f32(4, 6)[:, ::2], id="strided"),
        pytest.param(np.broadcast_to(f32(4), (2, 4)), id="read_only"),
        pytest.param(np.array(2.5), id="scalar"),
        pytest.param(np.empty((0, 3), np.float16), id="empty"),
        pytest.param(np.array([True, False, True]), id="bool"),
        pytest.param(RNG.integers(-9, 9, size=(5, 2)), id="int64"),
        pytest.param(np.array([1, 2], ">i4"), id="big_endian"),
    ],
)
def test_constants_survive_serialization(constant: Array, tmp_path: Path) -> None:
    seen: list[Array] = []

    def remember(_symbol: str, _payload: bytes, constants: Mapping[str, Any]) -> Any:
        seen.extend(np.from_dlpack(each).copy() for each in constants.values())
        return lambda x, y: y.copyfrom(x)

    name = "test.remember"
    tvm_ffi.register_global_func(f"collage.engine.{name}", remember, override=True)
    constants = {"first": f32(3), "constant": constant, "last": f32(1, 7)}
    path = str(tmp_path / "library.so")

    kernel = build.make_module("kernel", name, b"payload", constants)
    executable(kernel, 4).export_library(path, addons=build.addons())
    run(tvm.runtime.load_module(path), f32(4))

    for found, wanted in zip(seen, constants.values(), strict=True):
        assert found.dtype == wanted.dtype.newbyteorder("=")
        np.testing.assert_array_equal(found, wanted)


def test_an_exported_library_runs_in_the_same_process(
    engine: tuple[str, list[str]], tmp_path: Path
) -> None:
    x, a = f32(6), f32(6)
    path = str(tmp_path / "library.so")
    built = executable(build.make_module("kernel", engine[0], b"", {"a": a}), 6)

    built.export_library(path, addons=build.addons())

    for module in (built, tvm.runtime.load_module(path)):
        np.testing.assert_allclose(run(module, x), np.exp(x + a), rtol=1e-5)


def test_two_exported_libraries_run_in_one_fresh_process(tmp_path: Path) -> None:
    constants = [f32(6), f32(6)]
    for i, constant in enumerate(constants):
        kernel = build.make_module("kernel", "test.fresh", b"", {"a": constant})
        path = str(tmp_path / f"library{i}.so")
        executable(kernel, 6).export_library(path, addons=build.addons())
        np.save(tmp_path / f"constant{i}.npy", constant)

    said = fresh_process(
        """
        import gc, sys
        import numpy as np, tvm, tvm_ffi
        from tvm import relax

        @tvm_ffi.register_global_func("collage.engine.test.fresh")
        def engine(symbol, payload, constants):
            a = constants["a"]
            def run(x, y):
                y.copyfrom(x.numpy() + a.numpy())
            return run

        x = np.linspace(-1, 1, 6).astype("float32")

        def check(i):
            module = tvm.runtime.load_module(f"{sys.argv[1]}/library{i}.so")
            found = relax.VirtualMachine(module, tvm.cpu())["main"](tvm.runtime.tensor(x)).numpy()
            wanted = np.exp(x + np.load(f"{sys.argv[1]}/constant{i}.npy"))
            np.testing.assert_allclose(found, wanted, rtol=1e-5)

        # The library that brought the code is let go before the other is loaded.
        check(0); gc.collect(); check(1); gc.collect(); check(0)
        print("collage_dsl" in sys.modules)
        """,
        tmp_path,
    )

    assert said == "False\n"


def test_an_engine_that_is_nowhere_is_named() -> None:
    module = build.make_module("conv1", "onxruntime", b"", {})

    with pytest.raises(RuntimeError) as caught:
        module.get_function("conv1")

    assert str(caught.value) == (
        "kernel `conv1` needs the engine `onxruntime`: install the Python package that declares "
        "it, such as collage_dsl, or register the global function `collage.engine.onxruntime` "
        "(no installed package declares an engine of that name)"
    )


def test_where_collage_is_not_installed_the_error_says_so(tmp_path: Path) -> None:
    kernel = build.make_module("kernel", "onnxruntime", b"", {})
    executable(kernel, 4).export_library(str(tmp_path / "library.so"), addons=build.addons())

    said = fresh_process(
        """
        import sys
        sys.modules["collage_dsl"] = None  # as if it were not installed
        import tvm
        from tvm import relax
        module = tvm.runtime.load_module(f"{sys.argv[1]}/library.so")
        try:
            relax.VirtualMachine(module, tvm.cpu())["main"]
        except RuntimeError as error:
            print(error)
        """,
        tmp_path,
    )

    assert "needs the engine `onnxruntime`: install the Python package that declares it" in said
    assert "(No module named 'collage_dsl" in said


def test_bytes_that_are_cut_off_are_refused() -> None:
    build.make_module("kernel", "any", b"", {})  # Registers the loader.
    load = tvm_ffi.get_global_func(f"ffi.Module.load_from_bytes.{build.KIND}")

    with pytest.raises(Exception, match="are cut off"):
        load(b"\x06\x00\x00\x00\x00\x00\x00\x00kern")


def fresh_process(script: str, folder: Path) -> str:
    """What `script` prints when a new process runs it; `folder` is its argument."""
    root = Path(__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", dedent(script), str(folder)],
        env=os.environ | {"PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


# ---- Compiling it ----


def test_without_a_compiler_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CXX", "/nowhere/c++")
    monkeypatch.setenv("PATH", "")

    with pytest.raises(build.NoCompiler) as caught:
        build.objects()

    assert str(caught.value) == (
        "no C++ compiler `/nowhere/c++`: install one (say `apt install g++`) "
        "or set CXX to the one to use"
    )


def test_what_the_compiler_says_is_shown_shortened(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    compiler = tmp_path / "compiler"
    compiler.write_text(
        dedent("""\
            #!/bin/sh
            [ "$1" = --version ] && exit 0
            for i in $(seq 50); do echo "error $i" >&2; done
            exit 1
            """)
    )
    compiler.chmod(compiler.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("CXX", str(compiler))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    with pytest.raises(build.CompileError) as caught:
        build.objects()

    lines = str(caught.value).splitlines()
    assert lines[0].endswith("failed:")
    assert lines[1:] == [f"error {i}" for i in range(1, 21)] + ["…"]
    assert not list((tmp_path / "cache").rglob("*.o"))


COPYING = """\
#!/bin/sh
[ "$1" = --version ] && exec echo copying
case "$*" in
  *kernel_module.cc*) made=kernel_module.o ;;
  *cores.cc*) made=cores.o ;;
  *) made=kernel_module.so ;;
esac
while [ "$1" != -o ]; do shift; done
sleep 0.2
cat "{made}/$made" > "$2"
"""
"""A compiler that gives what another has compiled: both processes write each file at once."""


def test_two_processes_may_compile_at_once(tmp_path: Path) -> None:
    script = "from collage_dsl.backends.runtime import build; print(build.kernel_library())"
    compiler = tmp_path / "compiler"
    compiler.write_text(COPYING.format(made=build.kernel_library().parent))
    compiler.chmod(compiler.stat().st_mode | stat.S_IXUSR)
    environment = os.environ | {
        "PYTHONPATH": str(Path(__file__).parents[1]),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "CXX": str(compiler),
    }

    both = [
        subprocess.Popen(
            [sys.executable, "-c", script], env=environment, stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    said = [process.communicate()[0].strip() for process in both]

    assert said[0] == said[1]
    folder = Path(said[0]).parent
    assert {path.name for path in folder.iterdir()} == {
        "cores.o",
        "kernel_module.o",
        "kernel_module.so",
    }


def test_addons_are_a_new_list_each_time() -> None:
    build.addons().append("lib0.o")  # TVM does so.

    assert build.addons() == [str(path) for path in build.objects()]
