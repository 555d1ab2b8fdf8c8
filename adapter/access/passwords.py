"""What is stored of passwords, and checking them: SCRAM-SHA-256 verifiers (RFC 5803) and md5 ones, as PostgreSQL 15.

Pure: salts are given. A password is never stored. One that has a verifier's form is taken for a verifier, as
PostgreSQL takes it (get_password_type), so that pg_dumpall can be restored.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import stringprep
import unicodedata

from msgspec import Struct

SCRAM_ITERATIONS = 4096
"""PostgreSQL 15's."""
SALT_BYTES = 16
KEY_BYTES = 32

_SCRAM = re.compile(r"SCRAM-SHA-256\$([1-9][0-9]{0,8}):([^$:]*)\$([^$:]*):([^$:]*)")
_MD5 = re.compile(r"md5[0-9a-f]{32}")


class ScramVerifier(Struct, frozen=True, kw_only=True):
    """What checks a client's proof and makes the server's."""

    iterations: int
    salt: bytes
    stored_key: bytes
    server_key: bytes

    def text(self) -> str:
        """As pg_authid stores it."""
        salt, stored, server = (
            base64.b64encode(part).decode() for part in (self.salt, self.stored_key, self.server_key)
        )
        return f"SCRAM-SHA-256${self.iterations}:{salt}${stored}:{server}"


def scram_verifier(text: str) -> ScramVerifier | None:
    """The verifier that is written there, None for any other text."""
    match = _SCRAM.fullmatch(text)
    if match is None:
        return None
    try:
        salt, stored, server = (base64.b64decode(part, validate=True) for part in match.groups()[1:])
    except binascii.Error:
        return None
    if len(stored) != KEY_BYTES or len(server) != KEY_BYTES:
        return None
    return ScramVerifier(iterations=int(match[1]), salt=salt, stored_key=stored, server_key=server)


def is_md5(text: str) -> bool:
    """Whether it is an md5 verifier."""
    return _MD5.fullmatch(text) is not None


def salted_password(password: str, salt: bytes, iterations: int) -> bytes:
    """PBKDF2 of the password: a few milliseconds of work, which does not belong on an event loop."""
    return hashlib.pbkdf2_hmac("sha256", prepared(password), salt, iterations)


def scram_of(password: str, salt: bytes, iterations: int = SCRAM_ITERATIONS) -> ScramVerifier:
    """The verifier of a password."""
    salted = salted_password(password, salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    return ScramVerifier(
        iterations=iterations,
        salt=salt,
        stored_key=hashlib.sha256(client_key).digest(),
        server_key=hmac.digest(salted, b"Server Key", "sha256"),
    )


def md5_of(password: str, role: str) -> str:
    """The md5 verifier of a role's password: PostgreSQL's, which asks for this digest and no better one."""
    return "md5" + hashlib.md5(password.encode() + role.encode(), usedforsecurity=False).hexdigest()


def verifier_to_store(password: str, *, role: str, encryption: str, salt: bytes) -> str | None:
    """What is stored for PASSWORD '...'; None for the empty password, which is none. `encryption` is the setting
    password_encryption."""
    if is_md5(password) or scram_verifier(password) is not None:
        verifier = password
    elif encryption == "md5":
        verifier = md5_of(password, role)
    else:
        verifier = scram_of(password, salt).text()
    return None if is_password(verifier, "", role=role) else verifier


def is_password(verifier: str, password: str, *, role: str) -> bool:
    """Whether this is the password that the stored verifier belongs to."""
    scram = scram_verifier(verifier)
    if scram is not None:
        given = scram_of(password, scram.salt, scram.iterations)
        return hmac.compare_digest(given.server_key, scram.server_key)
    return hmac.compare_digest(md5_of(password, role), verifier)


_SPACE = r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?(?:\*/|$))"
_CONSTANT = r"(?:e'(?:[^'\\]|''|\\.)*(?:'|$)|(?:u&)?'(?:[^']|'')*(?:'|$)|\$(?P<tag>\w*)\$.*?(?:\$(?P=tag)\$|$))"
_SECRETS = (
    "password", "secret_access_key", "session_token", "account_key", "sas_key", "service_account_key", "credential",
    "token",
)  # fmt: skip
"""Words before constants that nobody is to see: of roles, and the options of user mappings."""

_WRITTEN = re.compile(rf"(?is)(\b(?:{'|'.join(_SECRETS)})\b\"?{_SPACE}*){_CONSTANT}")
_ANY = re.compile(rf"(?is){_CONSTANT}")
_MAPPING = re.compile(rf"(?is)\buser{_SPACE}+mapping\b")


def without_passwords(statement: str) -> str:
    """The text of a statement as others may see it: hidden is each constant after PASSWORD, after the options of user
    mappings, and, in a text about such mappings, whatever their options may be called."""
    lowered = statement.lower()
    if any(word in lowered for word in _SECRETS):
        statement = _WRITTEN.sub(r"\1'********'", statement)
    mapping = _MAPPING.search(statement) if "mapping" in lowered else None
    if mapping is None:
        return statement
    return statement[: mapping.end()] + _ANY.sub("'********'", statement[mapping.end() :])


def prepared(password: str) -> bytes:
    """The password as SASLprep (RFC 4013) leaves it, in UTF-8; unchanged where that has no result, as PostgreSQL and
    its clients have it."""
    if password.isascii():
        return password.encode()
    mapped = "".join(
        " " if stringprep.in_table_c12(char) else "" if stringprep.in_table_b1(char) else char for char in password
    )
    # PostgreSQL holds what has not been normalized yet against the tables.
    if not mapped or any(_is_prohibited(char) for char in mapped) or not _has_one_direction(mapped):
        return password.encode("utf-8", "surrogateescape")
    return unicodedata.normalize("NFKC", mapped).encode()


def _is_prohibited(char: str) -> bool:
    tables = (
        stringprep.in_table_a1, stringprep.in_table_c12, stringprep.in_table_c21_c22, stringprep.in_table_c3,
        stringprep.in_table_c4, stringprep.in_table_c5, stringprep.in_table_c6, stringprep.in_table_c7,
        stringprep.in_table_c8, stringprep.in_table_c9,
    )  # fmt: skip
    return any(table(char) for table in tables)


def _has_one_direction(text: str) -> bool:
    """RFC 3454, section 6: right-to-left text has no other, and has it at both ends."""
    if not any(stringprep.in_table_d1(char) for char in text):
        return True
    if any(stringprep.in_table_d2(char) for char in text):
        return False
    return stringprep.in_table_d1(text[0]) and stringprep.in_table_d1(text[-1])
