"""The codes of diagnostics. A code keeps its meaning for ever; its title may be reworded."""

from collections.abc import Mapping
from types import MappingProxyType

CODES: Mapping[str, str] = MappingProxyType(
    {
        # The text.
        "E0101": "syntax error",
        "E0102": "a brace is not closed",
        "E0103": "the edition line is missing or not understood",
        "E0104": "a string is not closed or has an unknown escape",
        "E0105": "nested too deeply",
        "E0106": "the file is too large",
        "E0107": "a number is out of range",
        "E0108": "there are too many errors",
        "W0109": "there are too many warnings",
        # Names, operators and attributes.
        "E0201": "unknown operator",
        "E0202": "a name is defined twice",
        "E0203": "wrong number of operands",
        "E0204": "unknown attribute",
        "E0205": "an attribute has another type",
        "E0206": "unknown name",
        "E0207": "a part of a pattern is never used",
        "E0208": "a word of the language cannot be a name",
        "E0209": "a pattern where a rule is needed, or the reverse",
        "E0210": "definitions that use each other",
        # Patterns and conditions.
        "E0301": "a pattern cannot match",
        "E0302": "a condition can never hold",
        "E0303": "the sides of an operation have types that cannot work together",
        "E0304": "a pattern yields no result, or several",
        "E0305": "an optional operand whose absence changes nothing",
        "E0306": "a condition cannot be asked here",
        "W0307": "a condition is unknown where an optional operand is absent",
        "W0308": "a node is optional, but its operand is not",
        "E0310": "an anchor that is not always an operator",
        "E0311": "a tolerance that is not between 0 and 1",
        "W0316": "an alternative is given twice",
        "W0317": "a tolerance that changes nothing",
        "E0320": "conditions that can never hold together",
        "E0321": "an attribute never has this value",
        "W0330": "a condition always holds",
        "W0331": "a list names what other conditions exclude",
        "W0333": "a constant is the data of an operator",
        # Rules and targets.
        "E0401": "unknown rule, primitive, kind or function",
        "E0402": "unknown argument",
        "E0403": "an argument is missing, given twice, or too many",
        "E0404": "an argument has another type",
        "W0405": "nothing uses a definition",
        "E0406": "rules or patterns grow too large when written out",
        "E0410": "a predicate comes from something that is not code",
        "W0420": "a rule that is never chosen",
        "W0421": "a limit refuses every match of a pattern",
        "W0422": "a limit refuses what a pattern allows",
        "E0423": "limits that nothing can keep to",
        "E0501": "unknown setting of a target",
        "E0502": "a setting is missing or given twice",
        "E0503": "a setting has a value of another type",
        "E0510": "a placement names no target of the file",
        "E0511": "a placement does not say which nodes it is about",
        "E0512": "placements contradict each other",
        "E0520": "how kernels are timed is out of range",
        "E0521": "a list of variants is wrong",
        "W0530": "a fallback target does not cover every operator",
        "W0540": "a kind of target that TVM does not have",
        "W0541": "an option that TVM does not take",
        "W0542": "a composite that the target gives to no library",
        # Graphs in the text notation.
        "E0601": "a graph returns nothing",
        "E0602": "an attribute without a default has no value",
        "E0603": "a type is not known or does not fit",
        # Imports.
        "E0801": "an imported file cannot be found or read",
        "E0802": "files import each other",
        "E0803": "an imported file does not define a name",
        "E0804": "an imported file has errors",
        "W0805": "nothing uses an import",
        "E0810": "there is no such pattern table",
        "E0811": "a pattern of a table that the language has no pattern for",
        # Tests.
        "E0701": "a test has no graph, several, or expects nothing",
        "E0702": "something that cannot be expected",
        "E0703": "a plan is asked for without costs",
        "E0710": "an expectation does not hold",
        "E0711": "a test cannot be run",
        # Comments that ignore warnings.
        "W0901": "a comment that ignores a warning is not as it should be",
        "W0902": "a comment ignores what is not there",
    }
)
"""The short title of each code."""
