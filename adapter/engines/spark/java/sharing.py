"""The workers of a server run one JVM: who needs Spark and finds none starts it, the others attach to it.

They meet in a folder. `running.json` in it says where the JVM is; whoever starts, attaches to or ends it holds
`start.lock` meanwhile. In the JVM's own folder each worker that uses it keeps `user-<number>` locked, a file which says
what is its own there, and `statements` locked for others while a statement of it runs. The locks are the operating
system's and end with their process, however that ends.

What a worker has made in a JVM (views, plans, jobs that run) nobody else can reach once it was killed. The worker that
takes its place finds its file, ends its jobs, and has the JVM given up (`worn`): at once when nobody's statement runs
in it, otherwise by whoever's statement is the last. The next statement starts another one.

A server of one process is its only worker. Everything here blocks.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from msgspec import Struct

from adapter.engines.spark.java.gateway import RunningJava, SparkUnavailable, is_running

RETRY_SECONDS = 0.02
"""Between two looks at a lock that another worker holds."""


class User(Struct, frozen=True, kw_only=True):
    """What a worker says of itself in a JVM: the tag of its jobs, and its folders."""

    tag: str
    folders: tuple[str, ...]


class JavaFolder:
    """The folder where the workers meet, as worker `number` sees it."""

    def __init__(self, path: Path, number: int) -> None:
        self.path = path
        self._number = number

    @contextmanager
    def starting(self, given_up: Callable[[], bool]) -> Iterator[None]:
        """Inside, no other worker starts, attaches to or ends the JVM. Raises SparkUnavailable when `given_up` while
        another one does."""
        self.path.mkdir(parents=True, exist_ok=True)
        descriptor = _opened(self.path / "start.lock")
        try:
            while not _locked(descriptor, fcntl.LOCK_EX):
                if given_up():
                    raise SparkUnavailable("the server stops")
                time.sleep(RETRY_SECONDS)
            yield
        finally:
            os.close(descriptor)

    def running(self) -> RunningJava | None:
        """The JVM that was started last and runs still, if one does. What one that is gone has left is removed."""
        try:
            java = msgspec.json.decode(self._record.read_bytes(), type=RunningJava)
        except FileNotFoundError:
            return None
        if is_running(java):
            return java
        self._record.unlink(missing_ok=True)
        shutil.rmtree(java.directory, ignore_errors=True)
        return None

    def announce(self, java: RunningJava) -> None:
        """Let the others find `java`; called while `starting`."""
        written = self._record.with_suffix(".new")
        written.touch(0o600)
        written.write_bytes(msgspec.json.encode(java))
        written.rename(self._record)

    def use(self, java: RunningJava, user: User) -> JavaUse:
        """Use `java` as this worker; called while `starting`."""
        return JavaUse(java, self._number, user)

    def predecessor(self, java: RunningJava) -> User | None:
        """What the process that had this worker's place before has left in `java`, if anything."""
        path = java.directory / _user_name(self._number)
        try:
            return None if _is_held(path) else msgspec.json.decode(path.read_bytes(), type=User)
        except FileNotFoundError:
            return None

    @property
    def _record(self) -> Path:
        return self.path / "running.json"


class JavaUse:
    """That this process uses a JVM, and whether statements of it run in it. Thread-safe where it says so."""

    def __init__(self, java: RunningJava, number: int, user: User) -> None:
        self._directory = java.directory
        self._own = java.directory / _user_name(number)
        self._user = _opened(self._own)
        _locked(self._user, fcntl.LOCK_EX)
        self._own.write_bytes(msgspec.json.encode(user))
        self._statements = _opened(java.directory / STATEMENTS)

    def begin(self) -> None:
        """A statement begins where none of this process ran."""
        fcntl.flock(self._statements, fcntl.LOCK_SH)

    def end(self) -> None:
        """No statement of this process runs any more."""
        fcntl.flock(self._statements, fcntl.LOCK_UN)

    def is_shared(self) -> bool:
        """Whether another process uses the JVM."""
        return any(path != self._own and _is_held(path) for path in self._directory.glob(_user_name("*")))

    def close(self) -> None:
        """The JVM is used no more."""
        self._own.unlink(missing_ok=True)
        os.close(self._user)
        os.close(self._statements)


@contextmanager
def unused(java: RunningJava) -> Iterator[bool]:
    """Whether no statement of any worker runs in `java`; if so, none begins inside."""
    try:
        descriptor = _opened(java.directory / STATEMENTS)
    except FileNotFoundError:
        yield False  # It is gone already.
        return
    try:
        yield _locked(descriptor, fcntl.LOCK_EX)
    finally:
        os.close(descriptor)


def wear_out(java: RunningJava) -> None:
    """Have `java` given up as soon as no statement runs in it."""
    with contextlib.suppress(FileNotFoundError):
        (java.directory / WORN).touch()


def is_worn(java: RunningJava) -> bool:
    """Whether `java` is to be given up."""
    return (java.directory / WORN).exists()


STATEMENTS = "statements"
WORN = "worn"


def _user_name(number: int | str) -> str:
    return f"user-{number}"


def _opened(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _locked(descriptor: int, how: int) -> bool:
    """Lock an open file unless somebody else has; whether that was done."""
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_held(path: Path) -> bool:
    """Whether a process has locked this file. Raises FileNotFoundError."""
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        return not _locked(descriptor, fcntl.LOCK_EX)
    finally:
        os.close(descriptor)
