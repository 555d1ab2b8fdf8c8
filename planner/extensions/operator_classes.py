"""The operator classes that extensions make. Their oids, and those of their families, are ones that PostgreSQL never
gives out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count

from msgspec import Struct


class OperatorClass(Struct, frozen=True, kw_only=True):
    """A row of pg_opclass. `input` and `key` (what an index holds of its keys) are types of pg_catalog by their names:
    ``""`` for the extension's own type, and for keys that are held as they are or as a type that there is not here. Of
    those of a type of an extension the first of a method is the default one."""

    oid: int
    name: str
    method: str
    input: str = ""
    key: str = ""
    is_default: bool = True
    equality: int = 0
    """The operator that says which keys are equal (`planner.functions.of_extensions`), for a type of an extension."""
    has_signatures: bool = False
    """Whether it has the option ``siglen``."""

    @property
    def family(self) -> int:
        """The oid of the operator family of its own that it is in."""
        return self.oid + 4


_BTREE_GIN = (
    "bit bool bpchar bytea char cidr date enum:anyenum float4 float8 inet int2 int4 int8 interval macaddr8 macaddr "
    "money name numeric oid text time timestamp timestamptz timetz uuid varbit varchar"
)
_BTREE_GIST = (
    "bit bool bpchar bytea cash:money cidr date enum:anyenum float4 float8 inet int2 int4 int8 interval macaddr8 "
    "macaddr numeric oid text time timestamp timestamptz timetz uuid vbit:varbit"
)
"""The types, with what the names of the classes call them where that is something else."""


def _of_types(types: str, method: str, pattern: str, oids: Iterator[int]) -> Sequence[OperatorClass]:
    pairs = [each.split(":") for each in types.split()]
    return tuple(
        OperatorClass(oid=next(oids), name=pattern.format(pair[0]), method=method, input=pair[-1]) for pair in pairs
    )


def _free_oids() -> Iterator[int]:
    """Four classes, then their families, and so on."""
    return (first + place for first in count(15200, 8) for place in range(4))


def _all() -> Iterator[tuple[str, Sequence[OperatorClass]]]:
    oids = _free_oids()
    yield "btree_gin", _of_types(_BTREE_GIN, "gin", "{}_ops", oids)
    yield "btree_gist", _of_types(_BTREE_GIST, "gist", "gist_{}_ops", oids)
    yield (
        "pg_trgm",
        (
            OperatorClass(
                oid=next(oids), name="gin_trgm_ops", method="gin", input="text", key="int4", is_default=False
            ),
            OperatorClass(
                oid=next(oids),
                name="gist_trgm_ops",
                method="gist",
                input="text",
                is_default=False,
                has_signatures=True,
            ),
        ),
    )


OVER_BUILTIN_TYPES: Mapping[str, Sequence[OperatorClass]] = dict(_all())
"""By extension."""

EXTENSION_OF: Mapping[int, str] = {each.oid: name for name, classes in OVER_BUILTIN_TYPES.items() for each in classes}
"""The extension, by oid of the class."""

WITHOUT_VALUES = frozenset(f"gist_{each}_ops" for each in ("cidr", "inet", "timetz", "hstore", "trgm"))
"""The classes of GiST from whose indexes PostgreSQL does not read the values of keys."""

_MEASURED = "cash date float4 float8 int2 int4 int8 interval oid time timestamp timestamptz trgm"
WITH_DISTANCES = frozenset(f"gist_{each}_ops" for each in _MEASURED.split())
"""Those whose indexes have rows in the order of a distance in PostgreSQL."""

BY_OID: Mapping[int, OperatorClass] = {each.oid: each for classes in OVER_BUILTIN_TYPES.values() for each in classes}
