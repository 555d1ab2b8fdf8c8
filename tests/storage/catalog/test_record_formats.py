"""Catalog records: servers of the version before read what a newer one writes until that is told to say more."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import msgspec

from storage.catalog.model import CatalogRecord, Column
from storage.catalog.record import NEWER_FIELDS, NEWER_RECORDS
from storage.durable.formats import UNGATED
from storage.durable.state import FORMAT_VERSION

FIELDS = Path(__file__).parent / "ungated_fields.txt"
"""The fields that there were before formats had gates. Never changed: what is new stands in `NEWER_FIELDS`."""


def structs(hint: Any) -> Iterator[type[msgspec.Struct]]:
    """Those that values of this type are made of."""
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        yield hint
        for inner in get_type_hints(hint).values():
            yield from structs(inner)
    for inner in get_args(hint):
        yield from structs(inner)


def found() -> dict[str, msgspec.structs.FieldInfo]:
    return {
        f"{struct.__name__}.{field.name}": field
        for struct in structs(CatalogRecord)
        for field in msgspec.structs.fields(struct)
    }


def test_fields_that_are_new_say_which_format_they_need() -> None:
    fields = found()
    new = fields.keys() - set(FIELDS.read_text().split())
    records = {name for name in new if name.split(".")[0] in NEWER_RECORDS}
    assert {name.split(".")[0] for name in records} == NEWER_RECORDS.keys()
    assert all(UNGATED < format <= FORMAT_VERSION for format in NEWER_RECORDS.values())
    new -= records
    assert new == NEWER_FIELDS.keys()
    assert all(UNGATED < NEWER_FIELDS[name] <= FORMAT_VERSION for name in new)
    assert all(not fields[name].required for name in new)


def test_what_says_nothing_is_not_written() -> None:
    plain = Column(attnum=1, name="a", type_oid=23)
    assert set(msgspec.msgpack.decode(msgspec.msgpack.encode(plain))) == {"attnum", "name", "type_oid"}
    back = msgspec.msgpack.decode(msgspec.msgpack.encode(plain), type=Column)
    for column in (plain, back, msgspec.structs.replace(back, options=(), statistics=-1, collation=0)):
        assert not {"options", "statistics", "collation"} & set(msgspec.msgpack.decode(msgspec.msgpack.encode(column)))
    told = msgspec.structs.replace(plain, options=("n_distinct=5",), statistics=100, collation=950)
    assert {"options", "statistics", "collation"} < set(msgspec.msgpack.decode(msgspec.msgpack.encode(told)))
    assert max(*NEWER_FIELDS.values(), *NEWER_RECORDS.values()) == FORMAT_VERSION


def test_what_has_new_fields_leaves_out_what_says_nothing() -> None:
    known = {struct.__name__: struct for struct in structs(CatalogRecord)}
    owners = {name.split(".")[0] for name in NEWER_FIELDS}
    assert [name for name in sorted(owners) if not known[name].__struct_config__.omit_defaults] == []
