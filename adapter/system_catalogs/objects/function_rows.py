"""Rows of pg_proc: how the catalogs show a routine that there is a record of."""

from __future__ import annotations

from typing import Any

from planner.types import type_names
from planner.types.types import VOID
from planner.types.user_types import with_names_shown
from storage.catalog.routines import Function

C_LANGUAGE, SQL_LANGUAGE = 13, 14


def user_row(record: Function) -> dict[str, Any]:
    """The row of pg_proc of a function of a user."""
    parameters = record.parameters
    modes = [parameter.mode for parameter in parameters]
    has_outputs = any(mode != "i" for mode in modes)
    defaults = [parameter.default for parameter in parameters if parameter.default is not None]
    variadic = next((parameter.type_oid for parameter in parameters if parameter.mode == "v"), 0)
    return {
        "oid": record.oid,
        "proname": record.name,
        "pronamespace": record.schema,
        "proowner": record.owner,
        "prolang": C_LANGUAGE if record.native else SQL_LANGUAGE,
        "procost": record.cost,
        "prorows": record.rows,
        "provariadic": _element(variadic),
        "prosupport": 0,
        "prokind": record.kind,
        "prosecdef": record.security_definer,
        "proleakproof": record.leakproof,
        "proisstrict": record.strict,
        "proretset": record.returns_set,
        "provolatile": record.volatility,
        "proparallel": record.parallel,
        "pronargs": len(record.inputs),
        "pronargdefaults": len(defaults),
        "prorettype": record.result or VOID,
        "proargtypes": list(record.input_types),
        "proallargtypes": [parameter.type_oid for parameter in parameters] if has_outputs else None,
        "proargmodes": modes if has_outputs else None,
        "proargnames": [p.name for p in parameters] if any(p.name for p in parameters) else None,
        "proargdefaults": ", ".join(with_names_shown(text) for text in defaults) or None,
        "protrftypes": None,
        "prosrc": record.body,
        "probin": "$libdir/tidegate" if record.native else None,
        "prosqlbody": None if record.sql_body is None else with_names_shown(record.sql_body),
        "proconfig": list(record.settings) or None,
        "proacl": None,
    }


def _element(oid: int) -> int:
    """pg_proc.provariadic for a variadic parameter of this type."""
    polymorphic = {2277: 2283, 5078: 5077}
    return polymorphic.get(oid) or type_names.element_of(oid)
