"""Files of others that are parts as they are: where they lie, and by which names they have the columns of a table.

Such a file is not in the blob store. Under the part's key there is a *link* instead, a small object that says which
file is meant (`LinkTarget`). It lives and goes as files of parts do, so copies of tables, the past and garbage
collection need know nothing of links; a blob store that follows them (`storage.lake.linked`) gives the bytes of the
file for the key.

The columns of the file have the names that its writer gave them (`Link.names`) and Arrow types that may only look
different (`stored_type`). `as_stored` makes the rows of a part out of rows of the file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import msgspec
import pyarrow as pa

LINK_KIND = "link"
"""What keys of links end in."""

LINKS_FORMAT = 6
"""The format (`storage.durable.state`) of what names links. A server that does not know it would not find the files."""

_TARGET = ".target"

CLAIMS = "adopted/"
"""Where keys of claims begin: small objects, one for each link, called as its file's path is hashed and as the link."""

_SLASH = "="
"""In the name of a claim what is a slash in its link, which has none of these."""


class Link(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The file of a part that is a file of others. `path` is absolute, or an object's URL; `names` has the name in the
    file of each physical column. `is_odd`: readers of Iceberg would not read it as the table's columns, for field ids
    or types of its own."""

    path: str
    names: dict[str, str]
    is_odd: bool = False

    @property
    def is_local(self) -> bool:
        """Whether it is a file of this host, and no object."""
        return "://" not in self.path


class LinkTarget(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is stored under a link's key: the file, as it was when it was taken over. `owned`: it goes when nothing
    refers to the link any more, and no other link is to it."""

    path: str
    bytes: int
    version: str
    owned: bool = False


def is_link(key: str) -> bool:
    """Whether `key` is that of a link."""
    return key.endswith("." + LINK_KIND)


def target_key(key: str) -> str:
    """The key under which a blob store that follows links knows the file itself of the link `key`: to be removed, if
    the link owns it."""
    return key + _TARGET


def linked_by(key: str) -> str | None:
    """The inverse of `target_key`; None for another key."""
    return key.removesuffix(_TARGET) if key.endswith("." + LINK_KIND + _TARGET) else None


def claims_of(path: str) -> str:
    """What the keys of all claims to the file at `path` begin with. NOTE: few folders, since a local store makes a file
    sooner than a folder; not a single one, since it looks through a folder for what begins so."""
    digest = hashlib.sha256(path.encode()).hexdigest()
    return f"{CLAIMS}{digest[:2]}/{digest[2:40]}."


def claim_key(path: str, link: str) -> str:
    """The key of the claim of the link `link` to the file at `path`: there as long as the link is, or longer."""
    return claims_of(path) + link.replace("/", _SLASH)


def claiming_link(key: str) -> str | None:
    """Whose claim `key` is that of; None when it is none."""
    return key.partition(".")[2].replace(_SLASH, "/") if key.startswith(CLAIMS) else None


def file_of(key: str, link: Link | None, uri: Callable[[str], str]) -> str:
    """What an engine opens to read the file of a part: a local file itself, else what `uri` says of its key."""
    return link.path if link is not None and link.is_local else uri(key)


def stored_type(type: pa.DataType) -> pa.DataType:
    """The type in which rows have a column that a file has as `type`: without what only says how it is held."""
    if pa.types.is_dictionary(type):
        return stored_type(type.value_type)
    if pa.types.is_large_string(type) or pa.types.is_string_view(type):
        return pa.string()
    if pa.types.is_large_binary(type) or pa.types.is_binary_view(type):
        return pa.binary()
    if pa.types.is_timestamp(type) and type.unit in ("ms", "us"):
        return pa.timestamp("us", None if type.tz is None else "UTC")
    if pa.types.is_time(type) and type.unit in ("ms", "us"):
        return pa.time64("us")
    return type


def as_stored(link: Link, rows: pa.Table, columns: Sequence[str]) -> pa.Table:
    """The physical `columns` out of `rows` of the file."""
    arrays = []
    for name in columns:
        array = rows.column(link.names[name])
        wanted = stored_type(array.type)
        arrays.append(array if array.type == wanted else array.cast(wanted))
    return pa.table(arrays, names=list(columns)) if columns else rows.select([])
