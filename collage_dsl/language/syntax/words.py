"""The words that begin an item of a file, and the settings of a target."""

ITEM_KEYWORDS = (
    *("import", "let", "extern", "pattern", "rule", "target", "pin", "forbid", "test"),
)
SETTINGS = (
    "compiler",
    "variants",
    "priority",
    "rules",
    "limits",
    "measure",
    "tune",
    "after",
    "fallback",
)
