"""What the workers of one server ask each other. Each question has one kind of answer, a msgpack value."""

from __future__ import annotations

from datetime import datetime
from typing import TypeAlias

from msgspec import Struct


class Question(Struct, frozen=True, tag=True):
    """The base of all questions."""


class CancelByKey(Question, frozen=True):
    """A client's CancelRequest for one of your sessions. Answer: whether the secret is right."""

    pid: int
    secret: bytes


class RoleOf(Question, frozen=True):
    """As which role one of your sessions has come in. Answer: the role's oid, or None when you do not have it."""

    pid: int


class Signal(Question, frozen=True):
    """Cancel the statement of one of your sessions, or terminate it. Answer: whether you have it."""

    pid: int
    terminate: bool


class Notified(Question, frozen=True):
    """The transaction of session `pid` has committed with these (channel, payload) pairs. Answer: None, once your
    sessions that listen know."""

    pid: int
    database: int
    notifications: tuple[tuple[str, str], ...]


class Appended(Question, frozen=True):
    """I have written notifications down for all servers, from the number `first` on. Answer: None, once your sessions
    that listen know."""

    first: int


class AuthenticationFailed(Question, frozen=True):
    """A client at this IP address, None on a Unix socket, has failed to come in as this role. Answer: None."""

    address: str | None
    user: str


class SessionRows(Question, frozen=True):
    """What you contribute to this system relation. Answer: rows, by column name."""

    relation: str


class ForgetStatements(Question, frozen=True):
    """Forget what you have counted of statements: of a role, in a database, of a query id; 0 is all. Answer: None."""

    role: int
    database: int
    query_id: int


class ForgetActivity(Question, frozen=True):
    """Forget what you have counted of a database, or (`oid` not 0) of one table or index in it. Answer: None."""

    database: int
    oid: int
    at: datetime


class LetGo(Question, frozen=True):
    """I have let go of a lock that you seem to wait for. Answer: None."""


class Waits(Question, frozen=True):
    """Which of your sessions wait for locks. Answer: `adapter.transactions.locks.between_workers.Waiting` of each."""


class HoldersOf(Question, frozen=True):
    """Which of your sessions hold these locks. Answer: `adapter.transactions.locks.between_workers.Holding` of each."""

    tags: tuple[tuple[str, int, int | tuple[int, int, int]], ...]


AnyQuestion: TypeAlias = (
    Appended
    | AuthenticationFailed
    | CancelByKey
    | RoleOf
    | Signal
    | Notified
    | SessionRows
    | ForgetStatements
    | ForgetActivity
    | LetGo
    | Waits
    | HoldersOf
)
