"""uuid-ossp: UUIDs of time and host, and of names (PostgreSQL 15, appendix F.49; RFC 4122)."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Mapping

from planner.functions.udfs.table import Udf

_MULTICAST = 0x010000000000


def of_time(host: bool, _: str) -> str:
    """uuid_generate_v1() with this host's address, uuid_generate_v1mc() with a random multicast one."""
    return str(uuid.uuid1(None if host else secrets.randbits(48) | _MULTICAST))


def of_name(version: int, namespace: str, name: str) -> str:
    """uuid_generate_v3() and uuid_generate_v5()."""
    within = uuid.UUID(namespace)
    return str(uuid.uuid3(within, name) if version == 3 else uuid.uuid5(within, name))


_T = "VARCHAR"

UDFS: Mapping[str, Udf] = {
    "tg_uuid_of_time": Udf(("BOOLEAN", _T), _T, of_time),
    "tg_uuid_of_name": Udf(("INTEGER", _T, _T), _T, of_name),
}
