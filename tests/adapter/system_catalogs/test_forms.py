"""The catalog functions' forms name routines that PostgreSQL has, and functions that the local engine gets."""

from __future__ import annotations

import re

from adapter.system_catalogs.functions.register import UDFS
from planner.functions.families.catalog import FORMS
from planner.functions.routines import routines

INFORMATION_SCHEMA_FUNCTIONS = {"_pg_expandarray(anyarray)"}


def test_every_form_is_of_a_routine_that_exists() -> None:
    assert set(FORMS) - set(routines()) <= INFORMATION_SCHEMA_FUNCTIONS


def test_every_engine_function_in_a_form_exists_and_gets_the_right_number_of_arguments() -> None:
    for key, form in FORMS.items():
        template = form.local
        assert isinstance(template, str), key
        for name, arguments in re.findall(r"(tg_\w+)\(((?:[^()]|\([^()]*\))*)\)", template):
            udf = UDFS[name]
            given = [argument for argument in arguments.split(", ") if argument]
            assert len(given) == len(udf.args) + (1 if udf.context else 0), key
            assert (given[:1] == ["{token}"]) == udf.context, key
