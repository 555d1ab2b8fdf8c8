"""What can be wrong with files of others. Each trouble names the file, and says what kind it is."""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

from storage.errors import StorageError

TroubleKind: TypeAlias = Literal[
    "forbidden",
    "relative",
    "missing",
    "changed",
    "malformed",
    "mismatch",
    "unreachable",
    "unreadable",
    "exists",
    "column",
    "unsupported",
]
"""forbidden: the place may not be used. relative: a path that begins nowhere. missing: nothing is there. changed: the
file is not the one that was listed. malformed: its content is not of the format. mismatch: its columns are not those of
the other files. unreachable: the object store does not answer. unreadable: the system refuses. exists: there is
something where a new file was to be. column: no file has a column that was declared. unsupported: it has what cannot be
read yet."""


class FileTrouble(StorageError):
    """A file, or several, cannot be used. `hint` is a whole sentence, or None."""

    def __init__(self, kind: TroubleKind, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.kind: TroubleKind = kind
        self.message = message
        self.hint = hint


def trouble_of(path: str, error: OSError) -> FileTrouble:
    """What the system's `error` about `path` says."""
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return FileTrouble("missing", f'could not open file "{path}": No such file or directory')
    if isinstance(error, PermissionError):
        return FileTrouble("forbidden", f'could not open file "{path}": {error.strerror}')
    return FileTrouble("unreadable", f'could not read file "{path}": {error.strerror or error}')


def malformed(path: str, error: Exception) -> FileTrouble:
    """The content of the file at `path` is not what its format asks for, as `error` says."""
    said = re.sub(r"^Could not open CSV input source '[^']*': (?:Invalid: )?", "", str(error))
    what = re.sub(r"\s+", " ", said).strip().rstrip(".")
    return FileTrouble("malformed", f'could not read file "{path}": {what}')


_CODE = re.compile(r"<Code>(\w+)</Code>")
_MESSAGE = re.compile(r"<Message>([^<]*)</Message>")
_ODD = re.compile(r'(?:Error parsing Path|Could not parse path: Path) "(.*?)"(?:: | contained )', re.DOTALL)
"""What obstore says of a key that it cannot have, be it one that is asked for or one of a listing."""

_NO_PLACE = frozenset({"NoSuchBucket", "ContainerNotFound"})
_REFUSALS = frozenset({"AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken"})


def _shown(path: str) -> str:
    """`path` without characters that control a terminal."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in path)


def trouble_of_store(path: str, error: Exception, failed: str) -> FileTrouble:
    """What an object store's `error` about `path` says; `failed` begins the message where the store has not said what
    is wrong. The message is one line, without the answer's XML."""
    from obstore import exceptions

    odd = _ODD.search(str(error))
    if odd is not None:
        key = _shown(odd[1])
        return FileTrouble(
            "unsupported",
            f'object "{key}" has a name that is not supported, on the way to "{_shown(path)}"',
            hint="Names of objects cannot have control characters, nor parts that are empty, . or ..; give it another "
            "name, or name a place without it.",
        )
    said = str(error).partition("\n\n")[0]
    found = _CODE.search(said)
    code = "" if found is None else found.group(1)
    if code in _NO_PLACE:
        return FileTrouble("missing", f'the bucket of "{path}" does not exist')
    if code == "NotImplemented":
        return FileTrouble("unsupported", f'{failed} "{path}": the object store has no conditional writes')
    if code in _REFUSALS or isinstance(error, exceptions.PermissionDeniedError | exceptions.UnauthenticatedError):
        return FileTrouble("forbidden", f'the object store refuses access to "{path}"')
    if isinstance(error, FileNotFoundError | exceptions.NotFoundError):
        return FileTrouble("missing", f'"{path}" does not exist')
    message = _MESSAGE.search(said)
    what = said.partition("<")[0] + ("" if message is None else f"{code}, {message.group(1)}")
    return FileTrouble("unreachable", f'{failed} "{path}": {" ".join(what.split())}')
