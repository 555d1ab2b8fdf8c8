"""Puts clients below .cache/clients-basic, each in the versions that its lock file pins.

An install is done again when its lock file has changed, and never counts as done when it failed half-way.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.clients_basic.client import CACHE, PROJECTS, run_tool
from tests.support.server import ROOT

LOCKS = Path(__file__).parent / "locks"
_UV = ROOT / ".venv" / "bin" / "uv"
_INSTALL_S, _BUILD_S = 900.0, 3600.0


def python_packages(name: str) -> Path:
    """A virtual environment of its own with `locks/NAME.txt`."""

    def fill(folder: Path) -> None:
        run_tool(_UV, "venv", "--quiet", "--python", sys.executable, folder, cwd=ROOT)
        command = (_UV, "pip", "install", "--quiet", "--python", folder / "bin" / "python", "--require-hashes")
        run_tool(*command, "-r", LOCKS / f"{name}.txt", cwd=ROOT, timeout_s=_INSTALL_S)

    return _installed(name, [LOCKS / f"{name}.txt"], fill)


def source(package: str, version: str) -> Path:
    """The source distribution of a Python package, unpacked: where its own tests are."""

    def fill(folder: Path) -> None:
        folder.mkdir()
        command = (sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps")
        archive = ("--no-binary", package, "--dest", folder, f"{package}=={version}")
        run_tool(*command, *archive, cwd=folder, timeout_s=_INSTALL_S)
        (packed,) = folder.glob("*.tar.gz")
        shutil.unpack_archive(packed, folder, filter="data")
        packed.unlink()

    (unpacked,) = _installed(f"{package}-{version}-source", [], fill).iterdir()
    return unpacked


def node_packages(name: str) -> Path:
    """`projects/NAME` with the packages of its package-lock.json."""
    project = PROJECTS / name

    def fill(folder: Path) -> None:
        shutil.copytree(project, folder)
        run_tool("npm", "ci", "--silent", "--no-audit", "--no-fund", cwd=folder, timeout_s=_INSTALL_S)

    return _installed(name, sorted(path for path in project.rglob("*") if path.is_file()), fill)


def go_program(name: str) -> Path:
    """The program that `projects/NAME` builds, in a folder as `client`."""
    project = PROJECTS / name

    def fill(folder: Path) -> None:
        folder.mkdir()
        run_tool("go", "build", "-o", folder / "client", ".", cwd=project, timeout_s=_INSTALL_S)

    return _installed(name, sorted(project.iterdir()), fill)


def rust_program(name: str) -> Path:
    """The program that `projects/NAME` builds, in a folder as `client`. `Cargo.pins` is its lock file without the lines
    that say where each package is from: those are from one that is made here."""
    project = PROJECTS / name

    def fill(folder: Path) -> None:
        shutil.copytree(project, folder / "source")
        lock = folder / "source" / "Cargo.lock"
        run_tool("cargo", "generate-lockfile", "--quiet", cwd=folder / "source", timeout_s=_INSTALL_S)
        origin = next(line for line in lock.read_text(encoding="utf-8").splitlines() if line.startswith("source = "))
        pins = (project / "Cargo.pins").read_text(encoding="utf-8")
        lock.write_text(pins.replace("\nchecksum = ", f"\n{origin}\nchecksum = "), encoding="utf-8")
        command = ("cargo", "build", "--quiet", "--locked", "--target-dir", folder / "target")
        run_tool(*command, cwd=folder / "source", timeout_s=_BUILD_S)
        shutil.copy(folder / "target" / "debug" / "client", folder / "client")
        shutil.rmtree(folder / "target")

    return _installed(name, sorted(path for path in project.rglob("*") if path.is_file()), fill)


def cargo_program(name: str, version: str) -> Path:
    """A program of crates.io, built as its own lock file pins what it needs, in `bin`."""

    def fill(folder: Path) -> None:
        command = ("cargo", "install", "--quiet", "--locked", "--debug", "--version", version, "--root", folder, name)
        run_tool(*command, cwd=ROOT, timeout_s=_BUILD_S)

    return _installed(f"{name}-{version}", [], fill)


def maven_jars(name: str) -> Path:
    """The jars that `projects/NAME/pom.xml` needs."""
    pom = PROJECTS / name / "pom.xml"

    def fill(folder: Path) -> None:
        goal = ("dependency:copy-dependencies", f"-DoutputDirectory={folder}")
        run_tool("mvn", "-q", "-B", "-f", pom, *goal, cwd=ROOT, timeout_s=_INSTALL_S)

    return _installed(name, [pom], fill)


def java_program(name: str) -> Path:
    """The classes of `projects/NAME/Session.java`, in `classes` beside the jars that its pom.xml names."""
    project = PROJECTS / name

    def fill(folder: Path) -> None:
        goal = ("dependency:copy-dependencies", f"-DoutputDirectory={folder}")
        run_tool("mvn", "-q", "-B", "-f", project / "pom.xml", *goal, cwd=ROOT, timeout_s=_INSTALL_S)
        options = ("-nowarn", "-proc:none", "-cp", f"{folder}/*", "-d", folder / "classes")
        run_tool("javac", *options, project / "Session.java", cwd=ROOT, timeout_s=_INSTALL_S)

    return _installed(name, [project / "pom.xml", project / "Session.java"], fill)


def _installed(name: str, pins: Sequence[Path], fill: Callable[[Path], None]) -> Path:
    wanted = hashlib.sha256(b"".join(path.read_bytes() for path in pins)).hexdigest()
    folder, stamp = CACHE / name, CACHE / f"{name}.installed"
    if folder.exists() and stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
        return folder
    CACHE.mkdir(parents=True, exist_ok=True)
    stamp.unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    print(f"installing {name}", flush=True)
    fill(folder)
    stamp.write_text(wanted, encoding="utf-8")
    return folder
