"""An object store as somebody else reaches it by himself: an executor of a cluster, which is sent this description.

It holds the same objects as `storage.stores.blob_object` below the same root. Everything blocks: it is for tasks and
threads, not for the event loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from obstore import exceptions, store

from storage.errors import StorageError, StoreUnavailable
from storage.stores.blob import check_key, check_prefix
from storage.stores.object_options import store_options


class ObjectPlace(Struct, frozen=True, kw_only=True):
    """The URL below which the objects are, and the store's own options as users give them. It can be pickled."""

    root: str
    options: Mapping[str, str] = field(default_factory=dict)

    def open(self) -> ObjectFiles:
        """A client for it."""
        return ObjectFiles(self)


class ObjectFiles:
    """A client for the objects of a place. What the store does not do raises StoreUnavailable with its reason."""

    def __init__(self, place: ObjectPlace) -> None:
        self._root = place.root.rstrip("/")
        self._store: Any = store.from_url(self._root, **store_options(self._root, place.options))

    def put_new(self, key: str, data: bytes) -> None:
        """Store `data` under a key that nobody else writes. An object of its length that is there already is ours: the
        library repeats requests that got no answer."""
        check_key(key)
        try:
            self._store.put(key, data, mode="create", use_multipart=False)
        except (exceptions.AlreadyExistsError, exceptions.PreconditionError) as error:
            if self._size(key) != len(data):
                raise StoreUnavailable(f"could not write blob {key!r} at {self._root}: its name is taken") from error
        except (exceptions.BaseError, OSError) as error:
            raise self._trouble(f"write blob {key!r}", error) from error

    def put_file(self, key: str, path: Path) -> None:
        """Store the file `path`, in pieces where it is large."""
        check_key(key)
        try:
            self._store.put(key, path)
        except (exceptions.BaseError, OSError) as error:
            raise self._trouble(f"write blob {key!r}", error) from error

    def get(self, key: str) -> bytes:
        """The object's bytes. One that is not there is an error too."""
        check_key(key)
        try:
            return bytes(self._store.get(key).bytes())
        except (exceptions.BaseError, OSError) as error:
            raise self._trouble(f"read blob {key!r}", error) from error

    def delete(self, keys: Iterable[str]) -> None:
        """Remove objects; those that are not there are left out."""
        for key in keys:
            check_key(key)
            try:
                self._store.delete(key)
            except (exceptions.NotFoundError, FileNotFoundError):
                continue
            except (exceptions.BaseError, OSError) as error:
                raise self._trouble(f"delete blob {key!r}", error) from error

    def list(self, prefix: str) -> Iterator[str]:
        """The keys that begin with `prefix`."""
        check_prefix(prefix)
        try:
            for chunk in self._store.list(prefix.rpartition("/")[0] or None):
                for item in chunk:
                    if item["path"].startswith(prefix):
                        yield item["path"]
        except (exceptions.BaseError, OSError) as error:
            raise self._trouble("list blobs", error) from error

    def _size(self, key: str) -> int:
        try:
            return int(self._store.head(key)["size"])
        except (exceptions.BaseError, OSError) as error:
            raise self._trouble(f"look up blob {key!r}", error) from error

    def _trouble(self, what: str, error: BaseException) -> StorageError:
        reason = str(error).strip().partition("\n")[0][:300]
        return StoreUnavailable(f"could not {what} at {self._root}: {reason}")
