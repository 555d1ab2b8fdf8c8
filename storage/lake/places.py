"""Where files of others may be, and which files a pattern means.

    Places(folders=(Path("/lake"),)).files(("/lake/sales/*.parquet",), suffixes=(".parquet",))

A local path is allowed when it lies below one of the operator's folders after its symbolic links and ``..`` are
resolved: that of the pattern before anything is listed, so that nothing is learned of what lies elsewhere, and that of
each file found. Objects of object stores are allowed: who reads them needs their store's credentials, and these come
from the operator's options or the usual variables.

In a pattern ``*``, ``?`` and ``[...]`` stay within a folder's name, ``**`` is any number of folders. A folder means all
files below it that end in one of the format's suffixes. Files and folders whose names begin with ``_`` or ``.`` are
left out unless they are named in full: writers keep their own things there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from storage.lake.troubles import FileTrouble, trouble_of, trouble_of_store
from storage.stores.object_options import OBJECT_SCHEMES, store_options

MAX_FILES = 200_000
"""Files that one pattern may mean: each takes some hundred bytes while a statement reads it."""

_RETRIES: Any = {"max_retries": 3, "retry_timeout": timedelta(seconds=15)}
"""How often and how long a request is repeated that got no answer."""

_MAGIC = re.compile(r"[*?\[]")


class LakeFile(Struct, frozen=True, kw_only=True):
    """A file as it was listed. `path` is absolute, or an object's URL; `version` changes when its content does: the
    time of the last change and the inode of a file, the entity tag of an object; empty for one that never changes."""

    path: str
    size: int
    version: str = ""


class Places:
    """The places that the server's operator allows. `folders` are local ones; `options` those of object stores
    (region, endpoint, credentials)."""

    def __init__(self, folders: Sequence[Path] = (), options: Mapping[str, str] | None = None) -> None:
        self._folders = tuple(os.path.realpath(folder) for folder in folders)
        self._options = dict(options or {})
        self._stores: dict[str, Any] = {}
        self._root: str | None = None
        """The one place below which these are, where that is in an object store."""
        self._anonymous = False
        """Whether nobody has said who asks a store that is not the operator's."""

    def within(self, root: str, options: Mapping[str, str], secrets: Collection[str]) -> Places:
        """Those below `root` alone, a folder or the URL of a prefix, with `options` of their own. Where these say which
        store it is, or who asks, the operator's `secrets` are not shown to it. Raises FileTrouble (forbidden,
        relative)."""
        known = self._options
        if "endpoint" in options or not options.keys().isdisjoint(secrets):
            known = {name: value for name, value in known.items() if name not in secrets}
        own = {**known, **options}
        if not is_url(root):
            return Places((Path(self._allow(root.removeprefix("file://"))),), own)
        found = Places((), own)
        found._root = root.rstrip("/")
        asks = not options.keys().isdisjoint(secrets) or options.get("skip_signature", "").lower() in ("true", "1")
        found._anonymous = "endpoint" in options and not asks
        return found

    def files(self, patterns: Sequence[str], suffixes: Sequence[str]) -> tuple[LakeFile, ...]:
        """The files that `patterns` mean, in the order of the patterns and then of their paths, each once. Raises
        FileTrouble (forbidden, relative, missing, unreachable, unreadable)."""
        found: dict[str, LakeFile] = {}
        for pattern in patterns:
            before = len(found)
            matching = self._objects(pattern, suffixes) if is_url(pattern) else self._local(pattern, suffixes)
            seen = False
            for file in sorted(matching, key=lambda file: file.path):
                seen = True
                found[file.path] = file
            if not seen and len(found) == before:
                raise FileTrouble("missing", f'no files match "{pattern}"')
            if len(found) > MAX_FILES:
                raise FileTrouble("unreadable", f'more than {MAX_FILES} files match "{pattern}"')
        return tuple(found.values())

    def now(self, file: LakeFile) -> LakeFile:
        """The file as it is now. Raises FileTrouble (missing, forbidden, unreachable, unreadable)."""
        if not is_url(file.path):
            self._allow(file.path)
            return _stat(file.path)
        store, key = self.store(file.path)
        found = _asked(file.path, lambda: store.head(key))
        return _object(file.path, found)

    def content(self, path: str) -> bytes:
        """All of a file. Raises FileTrouble (missing, forbidden, relative, unreachable, unreadable)."""
        if is_url(path):
            store, key = self.store(path)
            return bytes(_asked(path, lambda: store.get(key).bytes()))
        resolved = self._allow(path)
        try:
            return Path(resolved).read_bytes()
        except OSError as error:
            raise trouble_of(path, error) from error

    def has_folder(self, path: str) -> bool:
        """Whether there is anything in the folder. Raises FileTrouble (forbidden, relative, unreachable)."""
        if not is_url(path):
            return os.path.isdir(self._allow(path))
        store, key = self.store(path)
        inside = key.rstrip("/") + "/"
        return _asked(path, lambda: next(iter(store.list(prefix=inside, chunk_size=1)), None)) is not None

    @property
    def folders(self) -> tuple[Path, ...]:
        """The local folders, with their symbolic links resolved."""
        return tuple([Path(folder) for folder in self._folders])

    @property
    def options(self) -> Mapping[str, str]:
        """The options of object stores."""
        return self._options

    def check_unchanged(self, file: LakeFile) -> None:
        """Raises FileTrouble unless the file is still the one that was listed."""
        try:
            now = self.now(file)
        except FileTrouble as trouble:
            if trouble.kind == "missing":
                raise FileTrouble("missing", f'file "{file.path}" has vanished while it was read') from trouble
            raise
        if now.version != file.version or now.size != file.size:
            raise FileTrouble("changed", f'file "{file.path}" has changed while it was read')

    def writable(self, path: str) -> str:
        """`path`, where a file may be written: absolute and resolved, or an object's URL. Raises FileTrouble
        (forbidden, relative, unreadable)."""
        if is_url(path):
            self.store(path)
            return path
        return self._allow(path)

    def check(self, pattern: str) -> None:
        """Raises FileTrouble (forbidden, relative, unreachable) for files that are not in these places."""
        if is_url(pattern):
            self._store(pattern)
        else:
            self._allow(_fixed_folder(pattern.removeprefix("file://")))

    def store(self, url: str) -> tuple[Any, str]:
        """The object store of `url`, and the key in it. Raises FileTrouble (unreachable) for one that cannot be, and
        (forbidden) where nobody says who asks: the variables of the server's process are for the operator's store."""
        found = self._store(url)
        if self._anonymous:
            raise FileTrouble(
                "forbidden",
                f'there are no credentials for the object store of "{url}"',
                hint="Create a user mapping for the server, or set its option skip_signature to true.",
            )
        return found

    def _store(self, url: str) -> tuple[Any, str]:
        if self._root is not None and not _is_below(url, self._root):
            raise FileTrouble("forbidden", f'"{url}" is not below "{self._root}"')
        parts = urlsplit(url)
        root = f"{parts.scheme}://{parts.netloc}"
        if parts.scheme not in OBJECT_SCHEMES:
            raise FileTrouble("forbidden", f'"{url}" is in no store that is known')
        store = self._stores.get(root)
        if store is None:
            from obstore import store as stores

            try:
                store = stores.from_url(root, **store_options(root, self._options), retry_config=_RETRIES)
                self._stores[root] = store
            except Exception as error:
                what = str(error).partition("\n\n")[0]
                raise FileTrouble("unreachable", f'cannot use the store of "{url}": {what}') from error
        return store, url[len(root) + 1 :]

    # ------------------------------------------------------------ local files

    def _allow(self, path: str) -> str:
        """`path` resolved. Raises FileTrouble (relative, forbidden)."""
        if not os.path.isabs(path):
            raise FileTrouble("relative", f'relative path not allowed: "{path}"')
        resolved = os.path.realpath(path)
        if not any(resolved == folder or resolved.startswith(folder.rstrip("/") + "/") for folder in self._folders):
            raise FileTrouble(
                "forbidden",
                f'permission denied for path "{path}"',
                hint="The server reads and writes files below the folders that it was started with (--allow-path), and "
                "for a foreign table below the path of its server.",
            )
        return resolved

    def _local(self, pattern: str, suffixes: Sequence[str]) -> Iterator[LakeFile]:
        pattern = pattern.removeprefix("file://")
        fixed = _fixed_folder(pattern)
        self._allow(fixed)
        if not _MAGIC.search(pattern):
            if os.path.isdir(pattern):
                yield from self._below(pattern, None, None, suffixes)
            elif os.path.lexists(pattern):
                self._allow(pattern)
                yield _stat(pattern)
            return
        deepest = None if "**" in pattern else pattern.count("/")
        yield from self._below(fixed, _compiled(pattern), deepest, suffixes)

    def _below(
        self, folder: str, wanted: re.Pattern[str] | None, deepest: int | None, suffixes: Sequence[str]
    ) -> Iterator[LakeFile]:
        """The files below `folder` that match `wanted`, at most `deepest` folders down from the root; without `wanted`
        those that end in one of `suffixes`."""
        for path, folders, files in os.walk(folder, onerror=_refuse):
            folders[:] = sorted(name for name in folders if not name.startswith(("_", ".")))
            if deepest is not None and path.rstrip("/").count("/") + 1 >= deepest:
                folders.clear()
            for name in files:
                file = os.path.join(path, name)
                if name.startswith(("_", ".")):
                    continue
                if name.lower().endswith(tuple(suffixes)) if wanted is None else wanted.fullmatch(file):
                    self._allow(file)
                    yield _stat(file)

    # ------------------------------------------------------------ objects

    def _objects(self, pattern: str, suffixes: Sequence[str]) -> Iterator[LakeFile]:
        store, key = self.store(pattern)
        root = pattern[: len(pattern) - len(key)]
        wanted = None
        if _MAGIC.search(key):
            wanted = _compiled(key)
            prefix = _fixed_folder("/" + key).lstrip("/")
        else:
            found = _asked_or_none(pattern, lambda: store.head(key)) if key and not key.endswith("/") else None
            if found is not None:
                yield _object(pattern, found)
                return
            prefix = key.rstrip("/")

        def listed() -> list[Any]:
            return [meta for batch in store.list(prefix=prefix or None) for meta in batch]

        for meta in _asked(pattern, listed):
            path: str = meta["path"]
            below = path[len(prefix) :].lstrip("/") if prefix else path
            if any(part.startswith(("_", ".")) for part in below.split("/")) or not meta["size"]:
                continue
            if path.lower().endswith(tuple(suffixes)) if wanted is None else wanted.fullmatch(path):
                yield _object(root + path, meta)


def is_url(path: str) -> bool:
    """Whether `path` names an object of an object store."""
    return "://" in path and not path.startswith("file://")


def located(location: str) -> str:
    """The path or object that a table's `location` names, as `Places` knows it."""
    if location.startswith(("s3a://", "s3n://")):
        return "s3://" + location[6:]
    if location.startswith("file:"):
        return unquote(urlsplit(location).path) if "%" in location else urlsplit(location).path
    return location if is_url(location) else location.removeprefix("file://")


def _is_below(url: str, root: str) -> bool:
    """Whether `url` is `root` or an object below it, without a way out of it."""
    return (url == root or url.startswith(root + "/")) and not {".", ".."} & set(url[len(root) :].split("/"))


def _stat(path: str) -> LakeFile:
    try:
        found = os.stat(path)
    except OSError as error:
        raise trouble_of(path, error) from error
    return LakeFile(path=path, size=found.st_size, version=f"{found.st_mtime_ns}-{found.st_ino}")


def _object(path: str, meta: Mapping[str, Any]) -> LakeFile:
    version = meta.get("e_tag") or str(meta["last_modified"])
    return LakeFile(path=path, size=int(meta["size"]), version=version)


def _refuse(error: OSError) -> None:
    raise trouble_of(str(error.filename), error)


def _asked(path: str, ask: Any) -> Any:
    try:
        return ask()
    except Exception as error:
        raise trouble_of_store(path, error, "could not reach the object store of") from error


def _asked_or_none(path: str, ask: Any) -> Any:
    try:
        return _asked(path, ask)
    except FileTrouble as trouble:
        if trouble.kind == "missing":
            return None
        raise


def _fixed_folder(pattern: str) -> str:
    """The folder of `pattern` up to its first wildcard; the path itself when it has none."""
    found = _MAGIC.search(pattern)
    if found is None:
        return pattern
    return pattern[: found.start()].rpartition("/")[0] or "/"


def _compiled(pattern: str) -> re.Pattern[str]:
    """`pattern` as a regular expression of whole paths."""
    parts: list[str] = []
    place = 0
    while place < len(pattern):
        if pattern.startswith("**/", place):
            parts.append("(?:[^/]+/)*")
            place += 3
            continue
        if pattern.startswith("**", place):
            parts.append(".*")
            place += 2
            continue
        char = pattern[place]
        if char == "*":
            parts.append("[^/]*")
        elif char == "?":
            parts.append("[^/]")
        elif char == "[" and "]" in pattern[place + 2 :]:
            end = pattern.index("]", place + 2)
            inside = pattern[place + 1 : end].replace("\\", "\\\\")
            parts.append(f"[^{inside[1:]}]" if inside[0] == "!" else f"[{inside}]")
            place = end
        else:
            parts.append(re.escape(char))
        place += 1
    return re.compile("".join(parts))
