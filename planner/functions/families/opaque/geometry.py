"""Geometry (PostgreSQL 15, 9.11): operators and functions on point, line, lseg, box, path, polygon and circle."""

from __future__ import annotations

from collections.abc import Mapping

from planner.functions.forms.form import CallSite, Form, both
from planner.functions.udfs.geometry.table import ENGINE_TYPES, OF_NAMES, OF_OPERATORS, Routine


def _called(routine: Routine) -> Form:
    name = f"tg_geometry_{len(routine.args)}_{ENGINE_TYPES.get(routine.result, 'VARCHAR').lower()}"
    places = [f"{{{place}}}" for place in range(len(routine.args))]

    def called(site: CallSite) -> str:
        made = site.dialect.python(name, f"'{routine.key}'", *places)
        return f"CAST({made} AS DOUBLE)" if routine.result == "float8" else made

    return both(called)


def forms() -> Mapping[str, Form]:
    """The family's forms."""
    given: dict[str, Form] = {}
    for symbol, routines in OF_OPERATORS.items():
        for routine in routines:
            given[f"{symbol}({','.join(routine.args)})"] = _called(routine)
    for routine in OF_NAMES:
        given[routine.key] = _called(routine)
    given["point(float8,float8)"] = both(lambda site: site.dialect.python("tg_point_of", "{0}", "{1}"))
    given["circle(point,float8)"] = both(lambda site: site.dialect.python("tg_circle_of", "{0}", "{1}"))
    given["polygon(int4,circle)"] = both(lambda site: site.dialect.python("tg_polygon_of", "{0}", "{1}"))
    return given
