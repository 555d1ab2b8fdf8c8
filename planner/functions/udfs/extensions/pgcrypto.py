"""pgcrypto: digests, keyed digests, random bytes, password hashes and raw encryption (PostgreSQL 15, appendix F.28)."""

from __future__ import annotations

import hashlib
import hmac as keyed
import os
import re
from collections.abc import Mapping

import bcrypt
from cryptography.hazmat.primitives import padding
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from planner.errors import ExternalRoutineInvocation, InvalidParameterValue
from planner.functions.udfs.table import Udf

_DIGESTS = frozenset({"md5", "sha1", "sha224", "sha256", "sha384", "sha512"})
MAX_RANDOM_BYTES = 1024
_ROUNDS = (4, 31)
_DEFAULT_ROUNDS = 6
_BLOCK_BITS = 128
_CIPHER = re.compile(r"(\w+)(?:-(\w+))?(?:/pad:(\w+))?")


def digest(data: bytes, kind: str) -> bytes:
    """digest(): 22023 for an unknown algorithm."""
    return hashlib.new(_known(kind), data, usedforsecurity=False).digest()


def hmac(data: bytes, key: bytes, kind: str) -> bytes:
    """hmac(): 22023 for an unknown algorithm."""
    return keyed.new(key, data, _known(kind)).digest()


def _known(kind: str) -> str:
    name = kind.lower()
    if name not in _DIGESTS:
        raise InvalidParameterValue(f'Cannot use "{kind}": No such hash algorithm')
    return name


def random_bytes(count: int, _: str) -> bytes:
    """gen_random_bytes(): 39000 for a number out of range."""
    if not 1 <= count <= MAX_RANDOM_BYTES:
        raise ExternalRoutineInvocation("Length not in range")
    return os.urandom(count)


def salt(kind: str, rounds: int, _: str) -> str:
    """gen_salt() for bcrypt (``bf``), the only kind that this has; `rounds` 0 are the default ones."""
    if kind.lower() not in ("bf", "2a"):
        raise InvalidParameterValue("gen_salt: Unknown salt algorithm", hint="The one that is known is bf.")
    count = rounds or _DEFAULT_ROUNDS
    if not _ROUNDS[0] <= count <= _ROUNDS[1]:
        raise InvalidParameterValue("gen_salt: Incorrect number of rounds")
    return bcrypt.gensalt(count, prefix=b"2a").decode()


def crypt(password: str, salted: str) -> str:
    """crypt() with a salt or a hash of bcrypt's; 22023 for others."""
    if not salted.startswith("$2"):
        raise InvalidParameterValue("invalid salt", hint="The salts that are known are those of gen_salt('bf').")
    try:
        return bcrypt.hashpw(password.encode()[:72], salted.encode()[:29]).decode()
    except ValueError as error:
        raise InvalidParameterValue("invalid salt") from error


def encrypt(data: bytes, key: bytes, vector: bytes, kind: str) -> bytes:
    """encrypt() and encrypt_iv() with AES; 22023 for another cipher, 39000 where the data do not fit."""
    cipher, padded = _cipher(key, vector, kind, "encrypt")
    if padded:
        padder = padding.PKCS7(_BLOCK_BITS).padder()
        data = padder.update(data) + padder.finalize()
    elif len(data) % (_BLOCK_BITS // 8):
        raise ExternalRoutineInvocation("encrypt error: Encryption failed")
    encryptor = cipher.encryptor()
    return encryptor.update(data) + encryptor.finalize()


def decrypt(data: bytes, key: bytes, vector: bytes, kind: str) -> bytes:
    """decrypt() and decrypt_iv() with AES; 22023 for another cipher, 39000 where the data do not fit."""
    cipher, padded = _cipher(key, vector, kind, "decrypt")
    if len(data) % (_BLOCK_BITS // 8):
        raise ExternalRoutineInvocation("decrypt error: Decryption failed")
    decryptor = cipher.decryptor()
    plain = decryptor.update(data) + decryptor.finalize()
    if not padded:
        return plain
    try:
        unpadder = padding.PKCS7(_BLOCK_BITS).unpadder()
        return unpadder.update(plain) + unpadder.finalize()
    except ValueError as error:
        raise ExternalRoutineInvocation("decrypt error: Decryption failed") from error


def _cipher(key: bytes, vector: bytes, kind: str, action: str) -> tuple[Cipher[modes.ECB] | Cipher[modes.CBC], bool]:
    parsed = _CIPHER.fullmatch(kind.lower())
    name, mode, pad = parsed.groups() if parsed is not None else (None, None, None)
    if name not in ("aes", "aes128", "aes192", "aes256", "rijndael") or mode not in (None, "cbc", "ecb"):
        raise InvalidParameterValue(f'Cannot use "{kind}": No such cipher algorithm')
    if pad not in (None, "pkcs", "none"):
        raise InvalidParameterValue(f'Cannot use "{kind}": Unknown padding')
    size = next((size for size in (16, 24, 32) if len(key) <= size), None)
    if size is None:
        raise ExternalRoutineInvocation(f"{action} error: Key was too big")
    block = algorithms.AES(key.ljust(size, b"\0"))
    if mode == "ecb":
        return Cipher(block, modes.ECB()), pad != "none"
    return Cipher(block, modes.CBC(vector[:16].ljust(16, b"\0"))), pad != "none"


_T, _B, _I = "VARCHAR", "BLOB", "INTEGER"

UDFS: Mapping[str, Udf] = {
    "tg_pgcrypto_digest": Udf((_B, _T), _B, digest),
    "tg_pgcrypto_hmac": Udf((_B, _B, _T), _B, hmac),
    "tg_pgcrypto_random_bytes": Udf((_I, _T), _B, random_bytes),
    "tg_pgcrypto_salt": Udf((_T, _I, _T), _T, salt),
    "tg_pgcrypto_crypt": Udf((_T, _T), _T, crypt),
    "tg_pgcrypto_encrypt": Udf((_B, _B, _B, _T), _B, encrypt),
    "tg_pgcrypto_decrypt": Udf((_B, _B, _B, _T), _B, decrypt),
}
