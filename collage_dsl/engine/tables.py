"""Find the pattern tables that users have registered with TVM, and the checks of all tables."""

import sys
from importlib.util import find_spec

from collage_dsl.language.resolve.pattern_tables import (
    NoTableError,
    Table,
    Tables,
    parted,
    unregistered,
)
from collage_dsl.rules.predicate import (
    PATTERN_TABLE,
    Answer,
    Predicate,
    PredicateError,
    no_host_code,
)

_INSTALL = 'pip install "collage_dsl[tvm]"'


def registered_tables(*, allow_extern: bool = False) -> Tables:
    """
    The tables that users' code has registered in this process. If `allow_extern` is set, the module
    of `acme.patterns:mylib` is imported first.
    """

    def find(said: str) -> Table:
        module, _ = parted(said)
        imports = allow_extern and bool(module)
        if "tvm" not in sys.modules and not imports and find_spec("tvm"):
            raise unregistered(said)  # nothing can be registered, and importing TVM takes long
        try:
            from collage_dsl.targets.registered_tables import registered_table
        except ModuleNotFoundError as error:
            message = f"a table of your own is registered with TVM, which is missing: {_INSTALL}"
            raise NoTableError(message) from error
        return registered_table(said, allow_extern=allow_extern)

    return find


def table_lookup(predicate: Predicate, *, allow_extern: bool = False) -> Answer:
    """The lookup of the checks of pattern tables. It allows no other host code."""
    if not predicate.source.startswith(PATTERN_TABLE):
        return no_host_code(predicate)
    try:
        from collage_dsl.targets.pattern_tables import table_check  # needs TVM
    except ModuleNotFoundError as error:
        message = f"{predicate.source} is asked of TVM: {_INSTALL}"
        raise PredicateError(message) from error
    return table_check(predicate, allow_extern=allow_extern)
