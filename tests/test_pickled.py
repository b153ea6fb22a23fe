"""Errors pass from one process to another; what cannot says what to do."""

import copy
import inspect
import pickle
from importlib import import_module
from pkgutil import walk_packages

import pytest

import collage_dsl as collage
from collage_dsl.backends.onnx_writer.call import Unsupported
from collage_dsl.backends.registry import UnknownBackend
from collage_dsl.cost.sources import UnknownSource
from collage_dsl.search import NoPlanError, UnknownStrategyError
from tests.models import small_convolution

TEXT = "collage 1;\npattern p(x) { y = nn.rellu(x); yield y; }\n"


def rule_error() -> Exception:
    with pytest.raises(collage.RuleError) as caught:
        collage.load(text=TEXT)
    return caught.value


ERRORS = {
    "RuleError": rule_error,
    "NoPlanError": lambda: NoPlanError(["a", "b"]),
    "UnknownStrategyError": lambda: UnknownStrategyError("autoo", ["auto"]),
    "UnknownSource": lambda: UnknownSource("x", ["recorded"]),
    "UnknownBackend": lambda: UnknownBackend("x", ["tvm"]),
    "Unsupported": lambda: Unsupported("y", "median", "nothing is known for it"),
    "VerificationError": lambda: collage.VerificationError("wrong", None),
}


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_is_the_same_in_another_process(name: str) -> None:
    error = ERRORS[name]()

    for same in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(same) is type(error)
        assert (str(same), vars(same)) == (str(error), vars(error))


def test_every_error_with_arguments_of_its_own_is_tried() -> None:
    own = {
        name
        for module in walk_packages(collage.__path__, "collage_dsl.")
        for name, each in vars(import_module(module.name)).items()
        if inspect.isclass(each)
        and issubclass(each, Exception)
        and each.__module__ == module.name
        and "__init__" in vars(each)
    }

    # Raised and caught in the parser alone.
    assert own - {"NestingError"} == set(ERRORS)


def test_an_executable_says_that_it_is_saved_instead() -> None:
    compiled = collage.compile(
        small_convolution(), ["native"], cost=lambda kernel: 1e-6, race_seconds=0.01
    )

    for each in (compiled, compiled.executable):
        with pytest.raises(TypeError, match=r"`Compiled.save`, and read it with `load_executable`"):
            pickle.dumps(each)
