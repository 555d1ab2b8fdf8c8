"""citext: texts whose case says nothing (PostgreSQL 15, appendix F.10). They compare by their lower case; patterns fit
as those of ILIKE do."""

from __future__ import annotations

from collections.abc import Mapping

from planner.functions.families.aggregates import extreme
from planner.functions.families.comparison import keyed
from planner.functions.families.patterns import like, match
from planner.functions.forms.form import Form, both
from planner.types.signature import COMPARISONS


def operators() -> Mapping[str, tuple[str, Form]]:
    """By their keys (`planner.functions.registry`): the type of the result, and the form."""
    given: dict[str, tuple[str, Form]] = {}
    for symbol in COMPARISONS:
        given[f"{symbol}(citext,citext)"] = "bool", both(keyed(symbol))
    for symbol in ("<", "<=", ">", ">="):
        # What is compared by characters is compared so anyway.
        given[f"~{symbol}~(citext,citext)"] = "bool", both(keyed(symbol))
    for other in ("citext", "text"):
        for symbol in ("~~", "~~*"):
            given[f"{symbol}(citext,{other})"] = "bool", both(like(negated=False, insensitive=True))
            given[f"!{symbol}(citext,{other})"] = "bool", both(like(negated=True, insensitive=True))
        for symbol in ("~", "~*"):
            given[f"{symbol}(citext,{other})"] = "bool", both(match(negated=False, insensitive=True))
            given[f"!{symbol}(citext,{other})"] = "bool", both(match(negated=True, insensitive=True))
    return given


def aggregates() -> Mapping[str, tuple[str, Form]]:
    """Likewise."""
    return {f"{name}(citext)": ("citext", both(extreme(name))) for name in ("min", "max")}


def functions() -> Mapping[str, tuple[str, Form]]:
    """There are none but those of its script."""
    return {}


OF_DIMENSIONS: Mapping[str, bool] = {}
"""None looks at the dimensions of arrays."""

FUNCTIONS_BEHIND: Mapping[str, str] = {
    "=": "citext_eq", "<>": "citext_ne", "<": "citext_lt", "<=": "citext_le", ">": "citext_gt", ">=": "citext_ge",
    "~<~": "citext_pattern_lt", "~<=~": "citext_pattern_le", "~>~": "citext_pattern_gt", "~>=~": "citext_pattern_ge",
    "~~": "texticlike", "~~*": "texticlike", "!~~": "texticnlike", "!~~*": "texticnlike", "~": "texticregexeq",
    "~*": "texticregexeq", "!~": "texticregexne", "!~*": "texticregexne",
}  # fmt: skip
"""By their symbols: the functions that do what the operators do."""
