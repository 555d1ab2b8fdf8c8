"""Arguments that a call may leave out, and functions that collect their last arguments into an array.

The values are those of pg_proc.proargdefaults. Keyed by the function's OID.
"""

from __future__ import annotations

from collections.abc import Mapping

from planner.types.types import BOOL, FLOAT8, INT4, JSONB, TEXT, SqlType

_TRUE, _FALSE = (True, SqlType(BOOL)), (False, SqlType(BOOL))
_ZERO = (0, SqlType(INT4))

DEFAULTS: Mapping[int, tuple[int, tuple[tuple[object, SqlType], ...]]] = {
    1268: (2, (_TRUE,)),
    3305: (4, (_TRUE,)),
    3579: (4, (_FALSE,)),
    **dict.fromkeys((4350, 4351), (2, (("NFC", SqlType(TEXT)),))),
    5054: (5, (_TRUE, ("use_json_null", SqlType(TEXT)))),
    3464: (7, (*(_ZERO,) * 6, (0.0, SqlType(FLOAT8)))),
    **dict.fromkeys(
        (4005, 1177, 4006, 1179, 4007, 1180, 4008, 2023, 4009, 2030), (4, (("{}", SqlType(JSONB)), _FALSE))
    ),
}
"""parse_ident, jsonb_set, jsonb_insert, normalize, is_normalized, jsonb_set_lax, make_interval, jsonb_path_exists and
its kin: number of arguments, defaults of the last ones."""

VARIADIC_ARRAYS: Mapping[int, tuple[int, int]] = {
    3951: (1, 1009), 3953: (1, 1009), 3217: (1, 1009), 3940: (1, 1009),
    4282: (0, 3905), 4285: (0, 3907), 4288: (0, 3909), 4291: (0, 3911), 4294: (0, 3913), 4297: (0, 3927),
}  # fmt: skip
"""json_extract_path and its kin, the constructors of multiranges: index of the VARIADIC argument, its array type."""
