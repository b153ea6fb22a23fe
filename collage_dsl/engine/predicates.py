"""Where the code of predicates comes from: host code, and TVM's pattern tables."""

from collage_dsl.rules.host_code import host_code
from collage_dsl.rules.predicate import Answer, Lookup, Predicate, PredicateError

TABLE = "pattern_table:"
"""How the sources of predicates begin that are checks of TVM's own patterns."""


def no_tables(predicate: Predicate) -> Answer:
    """The lookup of `pattern_table:` where there is none."""
    raise PredicateError(
        f"predicate `{predicate.name}` needs the pattern table of {predicate.source}, "
        "which cannot be asked here"
    )


def lookup(*, allow_extern: bool = False, tables: Lookup = no_tables) -> Lookup:
    """
    The lookup of every source there is.

    Host code runs only where `allow_extern` says so; `tables` finds what begins with
    `pattern_table:`, which is always allowed.
    """
    code = host_code(allow=allow_extern)

    def find(predicate: Predicate) -> Answer:
        return (tables if predicate.source.startswith(TABLE) else code)(predicate)

    return find
