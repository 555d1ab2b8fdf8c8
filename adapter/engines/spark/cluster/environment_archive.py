"""Python with the packages that tasks need, as an archive that Spark unpacks beside each executor.

    bin/python               starts bin/python3.N with the libraries of the archive
    lib/libpython3.N.so      where the interpreter is linked to one
    lib/python3.N            the standard library, and below site-packages what `PACKAGES` and their requirements have

Everything is copied from the interpreter that runs this: executors have to be of the same kind of machine and system,
and need no Python of their own. Tidegate's own code is not in it: each server sends its own (`cluster.archive`).
"""

from __future__ import annotations

import errno
import io
import os
import re
import sys
import sysconfig
import tarfile
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

PACKAGES = (
    "bcrypt", "cryptography", "immutables", "msgspec", "numpy", "obstore", "postgast", "pyarrow", "regex", "structlog",
)  # fmt: skip
"""What the code that executors run imports."""

COMPRESSION = 6

_WITHOUT = frozenset({"__pycache__", "ensurepip", "idlelib", "include", "site-packages", "test", "tests", "tkinter"})
"""Folders that no task needs."""

_LAUNCHER = """\
#!/bin/sh
here=$(cd "$(dirname "$0")" && pwd)
LD_LIBRARY_PATH="$here/../lib${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}" exec "$here/{python}" "$@"
"""


def write_environment(path: Path) -> None:
    """Write the archive (tar, gzip) to `path`, which is there whole or not at all. Raises OSError, and
    PackageNotFoundError for a package that is not installed."""
    if path.is_dir():  # Said before the archive is made, which takes a minute.
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    partial = path.with_name(f".{path.name}.partial")
    try:
        with tarfile.open(partial, "w:gz", compresslevel=COMPRESSION, dereference=True) as archive:
            archive.add(_interpreter(), f"bin/{version}")
            _add_text(archive, "bin/python", _LAUNCHER.format(python=version))
            for library in _shared_libraries():
                archive.add(library, f"lib/{library.name}")
            standard = Path(sysconfig.get_path("stdlib"))
            for file in _files_below(standard):
                archive.add(file, f"lib/{version}/{file.relative_to(standard)}", recursive=False)
            for name in _closure(PACKAGES):
                for file, target in _files_of(name):
                    archive.add(file, f"lib/{version}/site-packages/{target}", recursive=False)
        partial.rename(path)
    finally:
        partial.unlink(missing_ok=True)


def _interpreter() -> Path:
    """The program of the interpreter itself, past virtual environments."""
    return Path(getattr(sys, "_base_executable", sys.executable)).resolve()


def _shared_libraries() -> Iterator[Path]:
    """Python's own library, where it is one."""
    if not sysconfig.get_config_var("Py_ENABLE_SHARED"):
        return
    name = sysconfig.get_config_var("INSTSONAME")
    folder = sysconfig.get_config_var("LIBDIR")
    if name and folder and (library := Path(folder) / name).exists():
        yield library


def _files_below(folder: Path) -> Iterator[Path]:
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _WITHOUT and not name.startswith("config-"))
        yield from (Path(place) / name for name in sorted(files))


def _closure(names: tuple[str, ...]) -> list[str]:
    """These packages and all that they require, of what is installed: what is not does not belong to this system."""
    found: dict[str, None] = {}
    wanted = list(names)
    while wanted:
        name = wanted.pop(0)
        if name in found:
            continue
        try:
            requirements = distribution(name).requires or []
        except PackageNotFoundError:
            if name in names:
                raise
            continue
        found[name] = None
        for requirement in requirements:
            named = re.match(r"[A-Za-z0-9._-]+", requirement)
            if named is not None and "extra ==" not in requirement:
                wanted.append(re.sub(r"[-_.]+", "-", named[0]).lower())
    return list(found)


def _files_of(name: str) -> Iterator[tuple[Path, str]]:
    """The files of a package, and where below site-packages they are."""
    for file in distribution(name).files or []:
        if ".." in file.parts or _WITHOUT & set(file.parts):
            continue
        path = Path(str(file.locate()))
        if path.is_file():
            yield path, str(file)


def _add_text(archive: tarfile.TarFile, name: str, text: str) -> None:
    entry = tarfile.TarInfo(name)
    data = text.encode()
    entry.size, entry.mode = len(data), 0o755
    archive.addfile(entry, io.BytesIO(data))
