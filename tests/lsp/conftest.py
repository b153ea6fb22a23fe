"""A language server that the tests of a module share."""

from collections.abc import Iterator

import pytest

from tests.lsp.editor import Served


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    server = Served(tmp_path_factory.mktemp("before"))
    yield server
    server.stop()
