"""The functions of SQL over large objects: PostgreSQL 15's be-fsstubs.c.

Descriptors belong to the transaction, and those that were opened since a savepoint go with it. What is opened to be
read only stays as it was; what is opened to be written shows the newest that the transaction sees.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any

from immutables import Map
from msgspec.structs import replace

from adapter.execution.statement import Running
from adapter.queries.large_objects.metadata import (
    change,
    comment_on,
    create,
    known_tables,
    require,
    require_owner,
    require_privileges,
    touch,
)
from adapter.queries.large_objects.pages import MAX_BYTES, end_of, read, remove, size_of, truncate, write
from adapter.transactions.pending import Descriptor, LargeObjects
from adapter.transactions.snapshots import own_parts
from planner.errors import (
    InsufficientPrivilege,
    InvalidParameterValue,
    NumericValueOutOfRange,
    ObjectNotInPrerequisiteState,
    ProgramLimitExceeded,
    UndefinedObject,
)
from storage.catalog.model import CatalogUpdate

INV_WRITE, INV_READ = 0x20000, 0x40000


class _Whence(IntEnum):
    """From where one seeks."""

    SET = 0
    HERE = 1
    END = 2


_MOST_READ = 0x3FFFFFFF - 4
"""Of one value (MaxAllocSize without its length)."""

_INT4_MAX = 0x7FFFFFFF


# ---------------------------------------------------------------- descriptors


def _opened(running: Running) -> LargeObjects:
    return running.transaction.pending.large_objects


def _have_open(running: Running, descriptors: Map[int, Descriptor]) -> None:
    pending = running.transaction.pending
    running.transaction.pending = replace(
        pending, large_objects=replace(pending.large_objects, descriptors=descriptors)
    )


def _descriptor(running: Running, number: int) -> Descriptor:
    """42704 for one that is not open."""
    found = _opened(running).descriptors.get(number)
    if found is None:
        raise UndefinedObject(f"invalid large-object descriptor: {number}")
    return found


def _to_read(running: Running, number: int) -> Descriptor:
    found = _descriptor(running, number)
    if not found.reads:
        raise ObjectNotInPrerequisiteState(f"large object descriptor {number} was not opened for reading")
    return found


def _to_write(running: Running, number: int) -> Descriptor:
    found = _descriptor(running, number)
    if not found.writes:
        raise ObjectNotInPrerequisiteState(f"large object descriptor {number} was not opened for writing")
    return found


async def _open(running: Running, oid: int, flags: int) -> int:
    """lo_open. 22023, 42704, 42501."""
    if not flags & (INV_READ | INV_WRITE):
        raise InvalidParameterValue(f"invalid flags for opening a large object: {flags}")
    descriptor = await _open_object(running, oid, writes=bool(flags & INV_WRITE))
    known = _opened(running).descriptors
    number = next(number for number in range(len(known) + 1) if number not in known)
    _have_open(running, known.set(number, descriptor))
    return number


async def _open_object(running: Running, oid: int, *, writes: bool) -> Descriptor:
    """What is opened to be written may be read as well, and both privileges are needed."""
    large_object = await require(running, oid)
    require_privileges(running, large_object, "rw" if writes else "r")
    if writes:
        return Descriptor(oid=oid, reads=True, writes=True)
    tables, transaction = known_tables(running), running.transaction
    assert tables is not None
    assert transaction.snapshot is not None
    shard, csn = tables.pages.shard, transaction.snapshot.csn
    if not transaction.isolation.keeps_snapshot and not transaction.is_own_table(tables.pages.relation):
        # Its later statements read at later snapshots, but this one as it is now.
        transaction.held.append(await running.services.env.leases.hold((shard,), csn))
    own = await own_parts(transaction, shard, newest=True)
    return Descriptor(oid=oid, reads=True, writes=False, as_of=csn, own=own)


def _close(running: Running, number: int) -> int:
    _descriptor(running, number)
    _have_open(running, _opened(running).descriptors.delete(number))
    return 0


async def _read(running: Running, number: int, length: int) -> bytes:
    descriptor = _to_read(running, number)
    found = await read(running, descriptor.oid, descriptor.position, length, descriptor)
    descriptor.position += len(found)
    return found


async def _write(running: Running, number: int, data: bytes) -> int:
    descriptor = _to_write(running, number)
    await write(running, descriptor.oid, descriptor.position, data)
    descriptor.position += len(data)
    return len(data)


async def _seek64(running: Running, number: int, offset: int, whence: int) -> int:
    descriptor = _descriptor(running, number)
    match whence:
        case _Whence.SET:
            position = offset
        case _Whence.HERE:
            position = descriptor.position + offset
        case _Whence.END:
            position = size_of(await end_of(running, descriptor.oid, descriptor)) + offset
        case _:
            raise InvalidParameterValue(f"invalid whence setting: {whence}")
    if not 0 <= position <= MAX_BYTES:
        raise InvalidParameterValue(f"invalid large object seek target: {position}")
    descriptor.position = position
    return position


async def _seek(running: Running, number: int, offset: int, whence: int) -> int:
    return _as_int4(await _seek64(running, number, offset, whence), "lo_lseek", number)


def _as_int4(position: int, what: str, number: int) -> int:
    if position > _INT4_MAX:
        raise NumericValueOutOfRange(f"{what} result out of range for large-object descriptor {number}")
    return position


def _tell64(running: Running, number: int) -> int:
    return _descriptor(running, number).position


def _tell(running: Running, number: int) -> int:
    return _as_int4(_tell64(running, number), "lo_tell", number)


async def _truncate(running: Running, number: int, length: int) -> int:
    descriptor = _to_write(running, number)
    if not 0 <= length <= MAX_BYTES:
        raise InvalidParameterValue(f"invalid large object truncation target: {length}")
    await truncate(running, descriptor.oid, length)
    return 0


# ---------------------------------------------------------------- whole objects


async def _unlink(running: Running, oid: int) -> int:
    """lo_unlink. What is open of it is closed. 42704, 42501."""
    large_object = await require(running, oid)
    require_owner(running, large_object, compatible=True)
    await unlink(running, oid)
    return 1


async def unlink(running: Running, oid: int) -> None:
    """Remove a large object, whoever owns it. 42704."""
    if running.transaction.looks_back:
        running.transaction.check_writable("lo_unlink()")
    large_object = await require(running, oid)
    tables = known_tables(running)
    assert tables is not None
    await remove(running, oid)
    change(running, tables, large_object, None)
    touch(running, oid, None)
    comment = comment_on(running.transaction.catalog, oid)
    if comment is not None:
        running.transaction.rely_on([comment])
        running.transaction.change_catalog([CatalogUpdate(record=comment, diff=-1)])
    known = _opened(running).descriptors
    for number in [number for number, each in known.items() if each.oid == oid]:
        known = known.delete(number)
    _have_open(running, known)


async def _get(running: Running, oid: int, offset: int = 0, length: int | None = None) -> bytes:
    """lo_get: a fragment, or all. 22023, 54000."""
    if length is not None and length < 0:
        raise InvalidParameterValue("requested length cannot be negative")
    view = await _open_object(running, oid, writes=False)
    size = size_of(await end_of(running, oid, view))
    if not 0 <= offset <= MAX_BYTES:
        raise InvalidParameterValue(f"invalid large object seek target: {offset}")
    wanted = max(size - offset, 0) if length is None else min(length, max(size - offset, 0))
    if wanted > _MOST_READ:
        raise ProgramLimitExceeded("large object read request is too large")
    return await read(running, oid, offset, wanted, view)


async def _put(running: Running, oid: int, offset: int, data: bytes) -> str:
    large_object = await require(running, oid)
    require_privileges(running, large_object, "rw")
    if not 0 <= offset <= MAX_BYTES:
        raise InvalidParameterValue(f"invalid large object seek target: {offset}")
    await write(running, oid, offset, data)
    return ""


async def _from_bytea(running: Running, oid: int, data: bytes) -> int:
    oid = await create(running, oid)
    await write(running, oid, 0, data)
    return oid


def _no_file(running: Running, *_: Any) -> int:
    raise InsufficientPrivilege(
        "the files of the server's host are not accessible",
        hint="Use the client's lo_import() and lo_export(), or psql's \\lo_import and \\lo_export.",
    )


LARGE_OBJECTS: Mapping[str, Callable[..., Any]] = {
    "lo_creat": lambda running, mode: create(running, 0),
    "lo_create": create,
    "lo_from_bytea": _from_bytea,
    "lo_unlink": _unlink,
    "lo_open": _open,
    "lo_close": _close,
    "loread": _read,
    "lowrite": _write,
    "lo_lseek": _seek,
    "lo_lseek64": _seek64,
    "lo_tell": _tell,
    "lo_tell64": _tell64,
    "lo_truncate": _truncate,
    "lo_truncate64": _truncate,
    "lo_get": _get,
    "lo_put": _put,
    "lo_import": _no_file,
    "lo_export": _no_file,
}
"""By name."""
