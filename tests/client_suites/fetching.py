"""Tests that packages do not carry: from Debian's source packages, or from a checkout."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from tests.clients_basic.client import CACHE, run_tool
from tests.support.server import ROOT

_FETCH_S = 900.0


def debian_source(package: str) -> Path:
    """The unpacked source of a package of Debian 13."""
    folder = CACHE / f"{package}-debian"
    if not folder.exists():
        packed = CACHE / f"{package}-debian-packed"
        run_tool(ROOT / "scripts" / "debian-source.sh", "trixie", package, packed, cwd=ROOT, timeout_s=_FETCH_S)
        (archive,) = packed.glob("*.orig.tar.*")
        half = CACHE / f"{package}-debian-half"
        shutil.rmtree(half, ignore_errors=True)
        half.mkdir()
        run_tool("tar", "-xf", archive, "--strip-components=1", "-C", half, cwd=CACHE)
        half.rename(folder)
    return folder


def with_tests(name: str, environment: Path, checkout: Path | None, fetch: Callable[[], Path]) -> Path:
    """A folder with `environment` and, as `source`, the tests and the settings of their runner: none of the modules
    that they are about, which are the installed ones."""
    source = fetch() if checkout is None else checkout
    folder = CACHE / f"{name}-suite"
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "source").mkdir(parents=True)
    (folder / "environment").symlink_to(environment)
    shutil.copytree(source / "tests", folder / "source" / "tests")
    shutil.copy(source / "pyproject.toml", folder / "source")
    return folder
