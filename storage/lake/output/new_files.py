"""The names of new files: given to all of them when everything is written, or to none.

    files = NewFiles(places, "/lake/out", format, Layout(partition_by=("day",)), tag="x7", scratch=scratch)
    RowFiles(..., Aside(files.aside()))            # in this process, or
    files.hidden()                                 # where tasks of executors write, by themselves
    files.put(written)                             # or remove()

Without partitions and a file size the path is that of one file, which takes the place of one that was there. Otherwise
it is that of a folder, which has no files yet: ``/lake/out/day=2024-01-01/part-00000.parquet``. While they are written,
local files are in a folder whose name begins with a dot, which no reader of folders looks into: ``/lake/out/.x7``, or
``/lake/.x7`` for the file ``/lake/out``. Objects are written to the server's `scratch` folder and sent when all are
whole; executors put theirs below ``.x7/`` in the store, which copies them to their names. A crash leaves such files and
nothing else; an error leaves none.

Files of tasks are called by their run, partition, attempt and number, and, when they are whole, by their rows:
``0.12.45.3-1000``. An attempt that does not count leaves files that nobody gives a name; they go with the folder.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from urllib.parse import quote

import structlog
from msgspec import Struct

from storage.lake.formats import HIVE_NULL
from storage.lake.output.row_files import Layout, OutputFormat, Values, WrittenFile, told
from storage.lake.places import Places, is_url
from storage.lake.troubles import FileTrouble, trouble_of_store

log = structlog.get_logger(__name__)

OBJECTS_AT_ONCE = 8
"""Objects that are sent, or copied, beside each other."""

MOST_COPIED = 5 << 30
"""Stores copy larger objects by no single request: they pass this process."""

_OF_TASK = re.compile(r"(\d+)\.(\d+)\.(\d+)\.\d+(?:-(\d+))?")


class HiddenFolder(Struct, frozen=True, kw_only=True):
    """Where tasks write what has no name yet: a local folder, or the URL of one and the options of its store. `shown`
    is how messages call it. It can be pickled."""

    path: str
    shown: str
    options: Mapping[str, str]

    def __repr__(self) -> str:
        # NOTE: options hold credentials.
        return f"HiddenFolder({self.path!r})"


def task_name(stem: str, number: int, rows: int | None = None) -> str:
    """What a file of a task is called, and when it is whole; the `stem` is that of `task_stem`."""
    return f"{stem}.{number}" if rows is None else f"{stem}.{number}-{rows}"


def task_stem(run: int, partition: int, attempt: int) -> str:
    """What the names of the files begin with that an attempt of a task writes."""
    return f"{run}.{partition}.{attempt}"


class NewFiles:
    """See the module. Belongs to one thread at a time, but for `progress`; everything blocks and raises FileTrouble."""

    def __init__(
        self, places: Places, path: str, format: OutputFormat, layout: Layout, *,
        tag: str, scratch: Path, beside: bool = False,
    ) -> None:  # fmt: skip
        """No other writer has the `tag`. Files that are put `beside` those that are there have it in their names, and
        replace none."""
        self._places = places
        self._is_url = is_url(path)
        self._format = format
        self.layout = layout
        self.path = places.writable(path).rstrip("/")
        self._scratch = scratch
        self._beside = beside
        self._own = f"{tag}-" if beside else ""
        folder = self.path if layout.is_folder else self.path.rpartition("/")[0]
        self._hidden = f"{folder}/.{tag}"
        self._lent = False
        """Whether executors write below `hidden`."""
        self._there: list[str] = []
        """Files that have their names."""
        self._made: list[str] = []
        """Folders that were made for the files, in that order."""
        if layout.is_folder and not beside:
            self._refuse_files()

    def _refuse_files(self) -> None:
        try:
            found = self._places.files((self.path,), ("",))
        except FileTrouble as trouble:
            if trouble.kind == "missing":
                return
            raise
        raise FileTrouble("exists", f'there are files in "{self.path}" already, such as "{found[0].path}"')

    @property
    def is_url(self) -> bool:
        """Whether the files are objects."""
        return self._is_url

    @property
    def options(self) -> Mapping[str, str]:
        """The options of object stores."""
        return self._places.options

    def aside(self) -> Path:
        """The folder where this process writes; it is made."""
        if self._is_url:
            self._scratch.mkdir(parents=True, exist_ok=True)
            return self._scratch
        self._make_folders(self._hidden, self.path)
        return Path(self._hidden)

    def hidden(self) -> HiddenFolder:
        """Where executors write; a local folder is made."""
        self._lent = True
        if not self._is_url:
            self.aside()
        return HiddenFolder(path=self._hidden, shown=self.path, options=self._places.options if self._is_url else {})

    def progress(self) -> tuple[int, int]:
        """The rows and the bytes of what executors have written to `hidden` so far."""
        attempts: dict[tuple[int, int, int], tuple[int, int]] = {}
        for name, size in self._hidden_files():
            found = _OF_TASK.fullmatch(name)
            if found is not None:
                run, partition, attempt, rows = (int(number or 0) for number in found.groups())
                known = attempts.get((run, partition, attempt), (0, 0))
                attempts[run, partition, attempt] = (known[0] + rows, known[1] + size)
        newest = max((run for run, _, _ in attempts), default=0)
        furthest: dict[int, tuple[int, int]] = {}
        for (run, partition, _), written in attempts.items():
            if run == newest:
                furthest[partition] = max(furthest.get(partition, (0, 0)), written)
        return sum(rows for rows, _ in furthest.values()), sum(size for _, size in furthest.values())

    def _hidden_files(self) -> Iterator[tuple[str, int]]:
        if not self._is_url:
            with contextlib.suppress(FileNotFoundError), told(self.path), os.scandir(self._hidden) as entries:
                for entry in entries:
                    with contextlib.suppress(FileNotFoundError):
                        yield entry.name, entry.stat().st_size
            return
        for key, size in self._hidden_objects():
            yield key.rpartition("/")[2], size

    def _hidden_objects(self) -> list[tuple[str, int]]:
        store, key = self._places.store(self._hidden)
        try:
            return [(item["path"], item["size"]) for chunk in store.list(prefix=key + "/") for item in chunk]
        except Exception as error:
            raise trouble_of_store(self.path, error, "could not list files of") from error

    def put(self, files: Sequence[WrittenFile]) -> None:
        """Puts the files, which are whole, where they belong, numbered in this order. After an error `remove` removes
        those that are there, and a file that was replaced stays as it is."""
        placed = [(file, target) for file, target in zip(files, self._targets(files), strict=True)]
        if self._is_url:
            _side_by_side([partial(self._put_object, *pair) for pair in placed])
        else:
            for pair in placed:
                self._put_local(*pair)
        self._remove_hidden()

    def _targets(self, files: Sequence[WrittenFile]) -> Iterator[str]:
        if not self.layout.is_folder:
            assert len(files) == 1
            yield self.path
            return
        numbers: dict[Values, int] = {}
        for file in files:
            number = numbers[file.values] = numbers.get(file.values, -1) + 1
            yield self._target(file.values, number)

    def _target(self, values: Values, number: int) -> str:
        folders = [
            f"{quote(name, safe=' ')}={HIVE_NULL if value is None else quote(value, safe=' :,+-')}"
            for name, value in zip(self.layout.partition_by, values, strict=True)
        ]
        return "/".join((self.path, *folders, f"part-{self._own}{number:05d}{self._format.suffix}"))

    def _make_folders(self, folder: str, shown: str) -> None:
        missing: list[str] = []
        while not os.path.isdir(folder) and (self.layout.is_folder or not missing):
            missing.append(folder)
            folder = os.path.dirname(folder)
        for each in reversed(missing):
            with told(shown):
                try:
                    os.mkdir(each)
                except FileExistsError:
                    continue  # Another statement has made it meanwhile.
            if each != self._hidden:
                self._made.append(each)

    def _put_local(self, file: WrittenFile, target: str) -> None:
        if self.layout.is_folder:
            self._make_folders(os.path.dirname(target), target)
        with told(target):
            if not self._beside:
                os.replace(file.path, target)
                self._there.append(target)
                return
            try:
                os.link(file.path, target)
            except FileExistsError as error:
                raise FileTrouble("exists", f'there is a file "{target}" already') from error
            self._there.append(target)

    def _put_object(self, file: WrittenFile, target: str) -> None:
        from obstore import exceptions

        store, key = self._places.store(target)
        try:
            if not is_url(file.path):
                store.put(key, Path(file.path), mode="create" if self._beside else "overwrite")
                self._there.append(target)
                return
            source = self._places.store(file.path)[1]
            if self._beside and _is_there(store, key):
                raise FileTrouble("exists", f'there is an object "{target}" already')
            if file.bytes <= MOST_COPIED:
                store.copy(source, key)
            else:
                store.put(key, store.get(source).stream())
        except exceptions.AlreadyExistsError as error:
            raise FileTrouble("exists", f'there is an object "{target}" already') from error
        except FileTrouble:
            raise
        except Exception as error:
            raise trouble_of_store(target, error, "could not write object") from error
        self._there.append(target)

    def _remove_target(self, target: str) -> None:
        if not self._is_url:
            with contextlib.suppress(OSError):
                os.unlink(target)
            return
        store, key = self._places.store(target)
        try:
            store.delete(key)
        except Exception as error:  # noqa: BLE001 - the statement has failed already
            log.warning("file left behind", file=target, error=str(error).partition("\n\n")[0])

    def remove(self) -> None:
        """Removes what was written, also what has its name already, and the folders that were made for it. Raises
        nothing: what cannot be removed is left aside."""
        for target in self._there if self.layout.is_folder else ():
            self._remove_target(target)
        self._remove_hidden()
        for folder in reversed(self._made):
            with contextlib.suppress(OSError):
                os.rmdir(folder)

    def _remove_hidden(self) -> None:
        if self._is_url:
            shutil.rmtree(self._scratch, ignore_errors=True)
            self.sweep()
            return
        # A task that goes on for a moment begins no file in a folder that is not there.
        gone = f"{self._hidden}.gone"
        with contextlib.suppress(OSError):
            os.rename(self._hidden, gone)
        shutil.rmtree(gone, ignore_errors=True)

    def sweep(self) -> None:
        """Removes the objects of executors that have no name, also what a task has put there since `put` or
        `remove`. Raises nothing."""
        if not self._is_url or not self._lent:
            return
        try:
            left = [key for key, _ in self._hidden_objects()]
            if left:
                self._places.store(self._hidden)[0].delete(left)
        except Exception as error:  # noqa: BLE001 - the statement is over
            log.warning("files left behind", files=self._hidden, error=str(error).partition("\n\n")[0])


def _is_there(store: object, key: str) -> bool:
    try:
        store.head(key)  # type: ignore[attr-defined]
    except FileNotFoundError:
        return False
    return True


def _side_by_side(tasks: Sequence[Callable[[], object]]) -> None:
    """Carries out `tasks`, some at once; when this returns or raises none of them runs."""
    with ThreadPoolExecutor(OBJECTS_AT_ONCE, thread_name_prefix="objects") as threads:
        futures = [threads.submit(task) for task in tasks]
        try:
            for future in futures:
                future.result()
        except BaseException:
            threads.shutdown(cancel_futures=True)
            raise
