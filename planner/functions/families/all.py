"""The families of routines, each a module whose `forms` gives the forms of its routines by key."""

from __future__ import annotations

from collections.abc import Mapping

from planner.functions.families import (
    aggregates,
    arithmetic,
    arrays,
    catalog,
    comparison,
    formatting,
    hashes,
    json,
    patterns,
    session,
    sets,
    text,
)
from planner.functions.families.datetime import arithmetic as datetime_arithmetic
from planner.functions.families.datetime import construction as datetime_construction
from planner.functions.families.datetime import fields as datetime_fields
from planner.functions.families.opaque import (
    addresses,
    bits,
    geometry,
    jsonpath,
    money,
    network,
    ranges,
    snapshots,
    timetz,
)
from planner.functions.forms.form import Form

FAMILIES = (
    comparison,
    arithmetic,
    text,
    patterns,
    datetime_arithmetic,
    datetime_fields,
    datetime_construction,
    formatting,
    aggregates,
    arrays,
    sets,
    hashes,
    json,
    addresses,
    geometry,
    money,
    timetz,
    bits,
    jsonpath,
    network,
    ranges,
    session,
    snapshots,
)


def all_forms() -> Mapping[str, Form]:
    """Every routine's form, by its key (planner.functions.registry)."""
    given: dict[str, Form] = dict(catalog.FORMS)
    for family in FAMILIES:
        given.update(family.forms())
    return given
