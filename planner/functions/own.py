"""The functions that PostgreSQL has not: Tidegate's own, in a schema of their name.

The functions that scripts of extensions call (`planner.extensions`) are among them.

They are called with the schema (``tidegate.format(...)``), which no search path holds, so that no function of
PostgreSQL's is ever hidden. The schema is part of the server and not of any database: it is in no catalog, and dumps,
which are to be restored elsewhere, leave it out. The OIDs are ones that PostgreSQL never gives out.
"""

from __future__ import annotations

from collections.abc import Mapping

from planner.functions.forms.form import Form, local_only
from planner.types.signature import Kind, Signature, Volatility
from planner.types.types import BOOL, BYTEA, FLOAT4, FLOAT8, INT4, INT8, JSONB, TEXT, TIMESTAMPTZ, UUID

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
)
"""What is carried out by the adapter: current_csn() is the CSN that the statement reads at, csn_at(time) the one at
which everything is read that was committed up to then, csn_time(csn) the time of a CSN."""

FORMS: Mapping[Signature, Form] = {
    signature: local_only(f"{name}({', '.join(f'{{{number}}}' for number in range(len(signature.args)))})")
    for name, signature in _CALLED.items()
}


def function(name: str) -> Signature:
    """The one function called `name`."""
    (found,) = functions(name)
    return found


def functions(name: str) -> tuple[Signature, ...]:
    """The overloads of the function called `name`."""
    return tuple(signature for signature in (*FORMS, *ACTING) if signature.name == name)
