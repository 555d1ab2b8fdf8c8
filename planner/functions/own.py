"""The functions that PostgreSQL has not: Tidegate's own, in a schema of their name.

The functions that scripts of extensions call (`planner.extensions`) are among them.

They are called with the schema (``tidegate.format(...)``), which no search path holds, so that no function of
PostgreSQL's is ever hidden. The schema is part of the server: no catalog stores it, and dumps, which are to be restored
elsewhere, leave it out. The OIDs are ones that PostgreSQL never gives out.
"""

from __future__ import annotations

from collections.abc import Mapping

from planner.functions.forms.form import CallSite, Form, both, local_only
from planner.types.signature import Kind, Signature, Volatility
from planner.types.types import (
    BOOL,
    BYTEA,
    FLOAT4,
    FLOAT8,
    INT4,
    INT8,
    JSONB,
    OID,
    TEXT,
    TID,
    TIMESTAMPTZ,
    UUID,
    VOID,
    XID,
)

SCHEMA = "tidegate"


def _function(
    oid: int, name: str, args: tuple[int, ...], result: int = TEXT, volatility: Volatility = Volatility.IMMUTABLE
) -> Signature:
    return Signature(
        name=name, kind=Kind.FUNCTION, args=args, result=result, oid=oid, strict=True, volatility=volatility
    )


_TEXT_ARRAY = 1009

_CALLED: Mapping[str, Signature] = {
    "tg_transpile": _function(15901, "transpile", (TEXT, TEXT, TEXT)),
    "tg_format_sql": _function(15902, "format", (TEXT,)),
    "tg_pgcrypto_digest": _function(15911, "pgcrypto_digest", (BYTEA, TEXT), BYTEA),
    "tg_pgcrypto_hmac": _function(15912, "pgcrypto_hmac", (BYTEA, BYTEA, TEXT), BYTEA),
    "tg_pgcrypto_random_bytes": _function(15913, "pgcrypto_random_bytes", (INT4, TEXT), BYTEA, Volatility.VOLATILE),
    "tg_pgcrypto_salt": _function(15914, "pgcrypto_salt", (TEXT, INT4, TEXT), TEXT, Volatility.VOLATILE),
    "tg_pgcrypto_crypt": _function(15915, "pgcrypto_crypt", (TEXT, TEXT)),
    "tg_pgcrypto_encrypt": _function(15916, "pgcrypto_encrypt", (BYTEA, BYTEA, BYTEA, TEXT), BYTEA),
    "tg_pgcrypto_decrypt": _function(15917, "pgcrypto_decrypt", (BYTEA, BYTEA, BYTEA, TEXT), BYTEA),
    "tg_uuid_of_time": _function(15918, "uuid_of_time", (BOOL, TEXT), UUID, Volatility.VOLATILE),
    "tg_uuid_of_name": _function(15919, "uuid_of_name", (INT4, UUID, TEXT), UUID),
    "tg_trigrams": _function(15920, "trigrams", (TEXT,), _TEXT_ARRAY),
    "tg_trigram_similarity": _function(15921, "trigram_similarity", (TEXT, TEXT), FLOAT4),
    "tg_trigram_word_similarity": _function(15922, "trigram_word_similarity", (TEXT, TEXT, BOOL), FLOAT4),
    "tg_levenshtein": _function(15923, "levenshtein", (TEXT, TEXT, INT4, INT4, INT4), INT4),
    "tg_sample_bound": _function(15925, "sample_bound", (FLOAT4,)),
    "tg_sample_seed": _function(15926, "sample_seed", (FLOAT8,)),
    "tg_jsonb_assign": _function(15927, "jsonb_assign", (JSONB, _TEXT_ARRAY, JSONB), JSONB),
    "tg_number_of_rows": _function(15931, "number_of_rows", (INT4,), INT4),
    "tg_soundex": _function(15924, "soundex", (TEXT,)),
}
"""By the function of `planner.functions.udfs` that computes it. transpile(text, from_dialect, to_dialect): see
`planner.syntax.dialects.transpiling`; format(text): `planner.syntax.formatting`; jsonb_assign(value, path, part) is
what SET of a part of a jsonb column does. What is volatile takes a random text,
by which each call is one of its own for the engines as well."""


def _acting(oid: int, name: str, args: tuple[int, ...], result: int, volatility: Volatility) -> Signature:
    return Signature(name=name, kind=Kind.FUNCTION, args=args, result=result, oid=oid, volatility=volatility)


ACTING = (
    _acting(15903, "current_csn", (), INT8, Volatility.STABLE),
    _acting(15904, "csn_at", (TIMESTAMPTZ,), INT8, Volatility.IMMUTABLE),
    _acting(15905, "csn_time", (INT8,), TIMESTAMPTZ, Volatility.IMMUTABLE),
    _acting(15906, "reset_statement_statistics", (OID, OID, INT8), VOID, Volatility.VOLATILE),
)
"""What is carried out by the adapter: current_csn() is the CSN that the statement reads at, csn_at(time) the one at
which everything is read that was committed up to then, csn_time(csn) the time of a CSN;
reset_statement_statistics(role, database, query id) forgets what was counted, 0 being all."""


def _row_place(site: CallSite) -> str:
    """A tid for the number of a row: 32,768 rows are a block, the blocks of rows that are not committed come last."""
    text, integer = site.dialect.text, site.dialect.scalar_types[INT8]
    number = f"CASE WHEN {{0}} < {_PROVISIONAL} THEN {{0}} ELSE {{0}} - {_PROVISIONAL} + {1 << 46} END"
    block, row = (
        f"CAST(({number}) {sign} 32768 AS {integer})" for sign in ("//" if site.engine == "local" else "DIV", "%")
    )
    return f"('(' || CAST({block} AS {text}) || ',' || CAST({row} + 1 AS {text}) || ')')"


def _row_values(site: CallSite) -> str:
    """An xid for the values of a row: 32 bits of the MD5 sum of their texts, whatever the session's settings."""
    texts = [f"{{stored:{number}}}" for number in range(1, len(site.arg_types))]
    shown = [f"coalesce(CAST(length({text}) AS {site.dialect.text}) || ':' || {text}, '-')" for text in texts]
    digits = f"substring(md5({' || '.join(shown) or chr(39) * 2}), 1, 8)"
    number = (
        f"CAST('0x' || {digits} AS BIGINT)" if site.engine == "local" else f"CAST(conv({digits}, 16, 10) AS BIGINT)"
    )
    return f"CASE WHEN {{0}} IS NOT NULL THEN greatest({number}, 3) END"


_ANY = 2276
_PROVISIONAL = 1 << 62
"""`storage.shards.parts.PROVISIONAL_ROW_ID`."""


def _in_python(name: str, arguments: int) -> Form:
    return both(lambda site: site.dialect.python(name, *(f"{{{number}}}" for number in range(arguments))))


_OF_ROWS: Mapping[Signature, Form] = {
    _function(15929, "row_place", (INT8,), TID): both(_row_place),
    Signature(
        name="row_values", kind=Kind.FUNCTION, args=(INT8, _ANY), result=XID, oid=15930, variadic=True, strict=False
    ): both(_row_values),
}
"""What `planner.queries.in_from.system_columns` makes of the number of a row, and of its values."""

_OF_JSON: Mapping[Signature, Form] = {
    _function(15991, "json_array_text", (TEXT, TEXT, TEXT)): _in_python("tg_json_array_text", 3),
    _function(15993, "json_text_within", (TEXT, INT4, TEXT)): _in_python("tg_json_text_within", 3),
    _function(15992, "json_row_text", (TEXT,)): _in_python("tg_json_row_text", 1),
}
"""What `planner.calls.json_records` makes of members that become arrays and rows."""


def _shaped(site: CallSite) -> str:
    dialect = site.dialect
    matches = "regexp_full_match({0}, {1})" if site.engine == "local" else "{0} RLIKE {1}"
    about = f"concat({{0}}, {dialect.string(chr(34) + ' for format ' + chr(34))}, {{2}})"
    error = dialect.raise_about("22007", 'invalid value "', about, '"')
    return f"CASE WHEN {{0}} IS NULL OR {matches} THEN {{0}} ELSE {error} END"


def _array_place(site: CallSite) -> str:
    shown = f"CAST({{0}} AS {site.dialect.text})"
    error = site.dialect.raise_about(
        "2202E", "array subscript out of range: there is no element ", shown, " (counted from 1)"
    )
    return f"CASE WHEN {{0}} IS NULL OR {{1}} IS NULL OR {{0}} BETWEEN 1 AND {{1}} THEN {{0}} ELSE {error} END"


_OF_DIALECTS: Mapping[Signature, Form] = {
    _function(15981, "shaped", (TEXT, TEXT, TEXT)): both(_shaped),
    _function(15982, "array_place", (INT4, INT4), INT4): both(_array_place),
}
"""What statements of other dialects become (`planner.syntax.dialects`): shaped(text, regular expression,
format) is the text when it matches and else an error, array_place(place, number of elements) the place of an element
that there is."""

FORMS: Mapping[Signature, Form] = (
    dict(_OF_ROWS)
    | dict(_OF_DIALECTS)
    | dict(_OF_JSON)
    | {
        signature: local_only(f"{name}({', '.join(f'{{{number}}}' for number in range(len(signature.args)))})")
        for name, signature in _CALLED.items()
    }
)


def function(name: str) -> Signature:
    """The one function called `name`."""
    (found,) = functions(name)
    return found


def functions(name: str) -> tuple[Signature, ...]:
    """The overloads of the function called `name`."""
    return tuple(signature for signature in (*FORMS, *ACTING) if signature.name == name)
