"""The checks of TVM's pattern tables, where there is a TVM to ask."""

from collage_dsl.language.pattern_tables import SOURCE
from collage_dsl.rules.predicate import Answer, Predicate, PredicateError, no_host_code


def table_lookup(predicate: Predicate) -> Answer:
    """The lookup of the checks of TVM's pattern tables, and of no host code."""
    if not predicate.source.startswith(SOURCE):
        return no_host_code(predicate)
    try:
        from collage_dsl.targets.pattern_tables import table_check  # needs TVM
    except ModuleNotFoundError as error:
        message = f'{predicate.source} is asked of TVM: pip install "collage_dsl[tvm]"'
        raise PredicateError(message) from error
    return table_check(predicate)
