"""Registers of the consensus store that hold one small value: reservations of CSNs, xids, oids and sequence numbers.

The value is JSON behind the header of `storage.durable.seal`. A bit that flips in a reservation would otherwise go
unnoticed, and give something out twice. Earlier versions wrote the JSON alone, which is still read.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from storage.durable import seal, unseal
from storage.errors import CorruptState

T = TypeVar("T")

_PLAIN = b"{[0123456789"
"""What JSON written by earlier versions begins with; a header begins with its version."""


def encode_register(value: msgspec.Struct) -> bytes:
    """The bytes of a register that holds `value`."""
    return seal(msgspec.json.encode(value))


def decode_register(data: bytes, type: type[T], what: str) -> T:
    """The value of a register. Raises CorruptState or NewerFormat, naming `what`."""
    payload = data if data[:1] and data[:1] in _PLAIN else unseal(data, what)
    try:
        return msgspec.json.decode(payload, type=type)
    except msgspec.MsgspecError as error:
        raise CorruptState(f"{what} cannot be read: {error}; restore the consensus store from a backup") from error
