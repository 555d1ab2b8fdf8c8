"""Functions and operators on text and bytea."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from planner.functions.engines.spark import checked
from planner.functions.forms.form import CallSite, Form, both, local_only, strict

_DIGESTS = {"sha224": 224, "sha256": 256, "sha384": 384, "sha512": 512}


def _substr(site: CallSite) -> str:
    start = site.constants[1]
    if len(site.constants) == 2:
        if isinstance(start, int) and start >= 1:
            return "substring({0}, {1})"
        return strict(site, "substring({0}, greatest({1}, 1))", 1)
    length = site.constants[2]
    if isinstance(start, int) and start >= 1 and isinstance(length, int) and length >= 0:
        return "substring({0}, {1}, {2})"
    fault = site.dialect.raise_sql("22011", "negative substring length not allowed")
    size = "least(greatest(CAST({1} AS BIGINT) + {2} - greatest({1}, 1), 0), 2147483647)"
    if site.engine == "spark":
        size = f"CAST({size} AS INT)"
    made = f"substring({{0}}, greatest({{1}}, 1), {size})"
    if isinstance(length, int) and length >= 0:
        return strict(site, made, 1)
    return strict(site, f"CASE WHEN {{2}} < 0 THEN {fault} ELSE {made} END", 0, 1, 2)


def _left(site: CallSite) -> str:
    count = site.constants[1]
    if isinstance(count, int) and count >= 0:
        return "left({0}, {1})"
    return (
        "CASE WHEN {1} >= 0 THEN left({0}, {1}) WHEN {1} < 0 THEN "
        "left({0}, CAST(greatest(length({0}) + {1}, 0) AS INT)) END"
    )


def _right(site: CallSite) -> str:
    count = site.constants[1]
    if isinstance(count, int) and count >= 0:
        return "right({0}, {1})"
    return (
        "CASE WHEN {1} >= 0 THEN right({0}, {1}) WHEN {1} < 0 THEN "
        "right({0}, CAST(greatest(length({0}) + {1}, 0) AS INT)) END"
    )


MAX_PADDED = 268_435_454
"""Characters that lpad and rpad make at most: PostgreSQL counts four bytes for each against its limit of 1 GB."""

MAX_REPEATED = 1_073_741_819
"""Bytes that repeat makes at most."""


LONG_REPEAT = 4096
"""Longer ones are made of pieces of at most so many."""


def _pad(name: str) -> Callable[[CallSite], str]:
    def template(site: CallSite) -> str:
        length, chars = site.constants[1], "greatest({1}, 0)"
        if not isinstance(length, int):
            # An engine that knows the values computes before it looks whether that is asked for.
            chars = f"CASE WHEN {{1}} BETWEEN 0 AND {MAX_PADDED} THEN {{1}} ELSE 0 END"
        is_given = len(site.arg_types) == 3
        fill = "{2}" if is_given else "' '"
        padded = f"{name}({{0}}, {chars}, {fill})"
        if isinstance(length, int) and length > MAX_PADDED and site.constants[0] is not None:
            padded = "left({0}, 0)"  # An error, unless it is NULL: an engine would pad before it looks.
        padded = strict(site, padded, 1)
        if length is not None and not (isinstance(length, int) and length <= MAX_PADDED):
            there = "{0} IS NOT NULL" + " AND {2} IS NOT NULL" * is_given
            padded = _unless_too_large(site, f"{{1}} > {MAX_PADDED} AND {there}", padded)
        if is_given and not (isinstance(site.constants[2], str) and site.constants[2]):
            cut = strict(site, "left({0}, greatest({1}, 0))", 1)
            padded = f"CASE WHEN {{2}} = '' THEN {cut} ELSE {padded} END"
        return padded

    return template


def _repeat(site: CallSite) -> str:
    text, count = site.constants
    size = f"CAST({'strlen' if site.engine == 'local' else 'octet_length'}({{0}}) AS BIGINT) * {{1}}"
    # An engine that knows the values computes before it looks whether that is asked for.
    repeated = f"repeat({{0}}, CASE WHEN {size} BETWEEN 1 AND {MAX_REPEATED} THEN {{1}} ELSE 0 END)"
    if isinstance(count, int):
        repeated = "repeat({0}, greatest({1}, 0))"
    if isinstance(count, int) and count > LONG_REPEAT:
        # Fewer and longer pieces: an engine copies each by itself, and does not look up for a cancel meanwhile.
        piece = next(size for size in range(LONG_REPEAT, 0, -1) if count % size == 0)
        repeated = f"repeat(repeat({{0}}, {piece}), {count // piece})"
    if isinstance(text, str) and isinstance(count, int):
        if len(text.encode()) * count <= MAX_REPEATED:
            return repeated
        return _unless_too_large(site, "TRUE", "left({0}, 0)")
    return _unless_too_large(site, f"{size} > {MAX_REPEATED}", strict(site, repeated, 1))


def _unless_too_large(site: CallSite, condition: str, made: str) -> str:
    return f"CASE WHEN {condition} THEN {site.dialect.raise_sql('54000', 'requested length too large')} ELSE {made} END"


def _trim(local: str, side: str) -> Form:
    def spark(site: CallSite) -> str:
        return f"trim({side} {{1}} FROM {{0}})"

    return Form(local=f"{local}({{0}}, {{1}})", spark=spark)


def _split_part(site: CallSite) -> str:
    position = site.constants[2]
    plain = "split_part({0}, {1}, {2})"
    if site.engine == "local":
        whole = strict(site, "CASE WHEN abs({2}) = 1 THEN {0} ELSE '' END", 0, 2)
        plain = f"CASE WHEN {{1}} = '' THEN {whole} ELSE split_part({{0}}, {{1}}, {{2}}) END"
        if isinstance(site.constants[1], str) and site.constants[1]:
            plain = "split_part({0}, {1}, {2})"
    if isinstance(position, int) and position != 0:
        return plain
    fault = site.dialect.raise_sql("22023", "field position must not be zero")
    return f"CASE WHEN {{2}} = 0 THEN {strict(site, fault, 0, 1)} ELSE {plain} END"


def _chr(site: CallSite) -> str:
    null = site.dialect.raise_sql("54000", "null character not permitted")
    negative = site.dialect.raise_sql("22023", "character number must be positive")
    large = site.dialect.error("'TG:54000:requested character too large for encoding: ' || {0}")
    if site.engine == "local":
        return (
            f"CASE WHEN {{0}} = 0 THEN {null} WHEN {{0}} < 0 THEN {negative} WHEN {{0}} > 1114111 THEN {large} ELSE"
            " chr({0}) END"
        )
    last, middle = "hex(128 + ({0} & 63))", "hex(128 + (shiftright({0}, 6) & 63))"
    third = "hex(128 + (shiftright({0}, 12) & 63))"
    two = f"hex(192 + shiftright({{0}}, 6)), {last}"
    three = f"hex(224 + shiftright({{0}}, 12)), {middle}, {last}"
    four = f"hex(240 + shiftright({{0}}, 18)), {third}, {middle}, {last}"
    return (
        f"CASE WHEN {{0}} = 0 THEN {null} WHEN {{0}} < 0 THEN {negative} WHEN {{0}} > 1114111 THEN {large} "
        f"WHEN {{0}} < 128 THEN chr({{0}}) ELSE decode(unhex(CASE WHEN {{0}} < 2048 THEN concat({two}) "
        f"WHEN {{0}} < 65536 THEN concat({three}) ELSE concat({four}) END), 'UTF-8') END"
    )


def _concat(site: CallSite) -> str:
    if site.spread:
        return _joined(site, "''")
    args = ", ".join(f"coalesce({{text:{index}}}, '')" for index in range(len(site.arg_types)))
    return f"concat({args})"


def _joined(site: CallSite, separator: str) -> str:
    """The texts of the elements of the last argument; NULL elements are passed over."""
    last = len(site.arg_types) - 1
    texts = site.dialect.transform(f"{{{last}}}", "e", f"{{element_text:{last}}}")
    joined = site.dialect.join(site.dialect.filter(texts, "e", "e IS NOT NULL"), separator)
    return f"CASE WHEN {{{last}}} IS NOT NULL AND {separator} IS NOT NULL THEN {joined} END"


def _concat_ws(site: CallSite) -> str:
    if site.spread:
        return _joined(site, "{0}")
    args = ", ".join(f"{{text:{index}}}" for index in range(1, len(site.arg_types)))
    if site.engine == "local":
        return f"concat_ws({{0}}, {args})"
    return f"CASE WHEN {{0}} IS NOT NULL THEN concat_ws({{0}}, {args}) END"


def _format(site: CallSite) -> str:
    if site.spread:
        return site.dialect.python("tg_format", "{0}", site.dialect.transform("{1}", "e", "{element_text:1}"))
    args = ", ".join(f"{{text:{index}}}" for index in range(1, len(site.arg_types)))
    return f"tg_format({{0}}, CAST([{args}] AS VARCHAR[]))"


def _replace(site: CallSite) -> str:
    search = site.constants[1]
    if isinstance(search, str) and search:
        return "replace({0}, {1}, {2})"
    return f"CASE WHEN {{1}} = '' THEN {strict(site, '{0}', 2)} ELSE replace({{0}}, {{1}}, {{2}}) END"


def _overlay(site: CallSite) -> str:
    length = "length({1})" if len(site.arg_types) == 3 else "{3}"
    fault = site.dialect.raise_sql("22011", "negative substring length not allowed")
    cast = "CAST({2} + " + length + " AS INT)"
    made = f"concat(left({{0}}, {{2}} - 1), {{1}}, substring({{0}}, greatest({cast}, 1)))"
    return strict(site, f"CASE WHEN {{2}} <= 0 THEN {fault} ELSE {made} END", *range(len(site.arg_types)))


def _encode(site: CallSite) -> str | None:
    kind = site.constants[1]
    if not isinstance(kind, str):
        return "tg_encode({0}, {1})" if site.engine == "local" else None
    if kind.lower() == "hex":
        return "lower(hex({0}))"
    return "tg_encode({0}, {1})" if site.engine == "local" else None


def forms() -> Mapping[str, Form]:
    """The family's forms."""
    length = Form(local="CAST(length({0}) AS INTEGER)", spark="length({0})")
    blank_length = Form(local="CAST(length(rtrim({0}, ' ')) AS INTEGER)", spark="length(rtrim({0}))")
    octets = Form(local="CAST(strlen({0}) AS INTEGER)", spark="octet_length({0})")
    position = Form(local="CAST(strpos({0}, {1}) AS INTEGER)", spark="instr({0}, {1})")
    given: dict[str, Form] = {
        "||(text,text)": both("({0} || {1})"),
        "||(anynonarray,text)": both("({cast:0} || {1})"),
        "||(text,anynonarray)": both("({0} || {cast:1})"),
        "||(bytea,bytea)": both("({0} || {1})"),
        "concat(any)": both(_concat),
        "concat_ws(text,any)": both(_concat_ws),
        "format(text)": local_only("tg_format({0}, CAST([] AS VARCHAR[]))"),
        "format(text,any)": Form(local=_format, spark=lambda site: _format(site) if site.spread else None),
        "length(text)": length,
        "length(bpchar)": blank_length,
        "length(bytea)": Form(local="CAST(octet_length({0}) AS INTEGER)", spark="octet_length({0})"),
        "char_length(text)": length,
        "char_length(bpchar)": blank_length,
        "character_length(text)": length,
        "character_length(bpchar)": blank_length,
        "octet_length(text)": octets,
        "octet_length(bpchar)": octets,
        "octet_length(bytea)": Form(local="CAST(octet_length({0}) AS INTEGER)", spark="octet_length({0})"),
        "bit_length(text)": Form(local="CAST(8 * strlen({0}) AS INTEGER)", spark="(8 * octet_length({0}))"),
        "bit_length(bytea)": Form(local="CAST(8 * octet_length({0}) AS INTEGER)", spark="(8 * octet_length({0}))"),
        "upper(text)": Form(local="tg_upper({0})", spark="replace(upper(replace({0}, 'ß', '\ue0df')), '\ue0df', 'ß')"),
        "lower(text)": Form(local="lower({0})", spark="lower({0})"),
        "initcap(text)": local_only("tg_initcap({0})"),
        "substr(text,int4)": both(_substr),
        "substr(text,int4,int4)": both(_substr),
        "substring(text,int4)": both(_substr),
        "substring(text,int4,int4)": both(_substr),
        "substr(bytea,int4,int4)": local_only("tg_substring_bytea({0}, {1}, {2})"),
        "substring(bytea,int4,int4)": local_only("tg_substring_bytea({0}, {1}, {2})"),
        "substr(bytea,int4)": local_only("tg_substring_bytea({0}, {1}, 2147483647)"),
        "substring(bytea,int4)": local_only("tg_substring_bytea({0}, {1}, 2147483647)"),
        "left(text,int4)": both(_left),
        "right(text,int4)": both(_right),
        "lpad(text,int4)": both(_pad("lpad")),
        "lpad(text,int4,text)": both(_pad("lpad")),
        "rpad(text,int4)": both(_pad("rpad")),
        "rpad(text,int4,text)": both(_pad("rpad")),
        "ltrim(text)": Form(local="ltrim({0}, ' ')", spark="ltrim({0})"),
        "rtrim(text)": Form(local="rtrim({0}, ' ')", spark="rtrim({0})"),
        "btrim(text)": Form(local="trim({0}, ' ')", spark="trim({0})"),
        "ltrim(text,text)": _trim("ltrim", "LEADING"),
        "rtrim(text,text)": _trim("rtrim", "TRAILING"),
        "btrim(text,text)": _trim("trim", "BOTH"),
        "replace(text,text,text)": both(_replace),
        "translate(text,text,text)": both("translate({0}, {1}, {2})"),
        "repeat(text,int4)": both(_repeat),
        # DuckDB's own keeps what combines with a character behind it.
        "reverse(text)": Form(
            local=(
                "CASE WHEN strlen({0}) = length({0}) THEN reverse({0}) ELSE"
                " array_to_string(list_reverse(string_split({0}, '')), '') END"
            ),
            spark="reverse({0})",
        ),
        "strpos(text,text)": position,
        "position(text,text)": position,
        "split_part(text,text,int4)": both(_split_part),
        "starts_with(text,text)": Form(local="starts_with({0}, {1})", spark="startswith({0}, {1})"),
        "^@(text,text)": Form(local="starts_with({0}, {1})", spark="startswith({0}, {1})"),
        "chr(int4)": both(_chr),
        "ascii(text)": Form(
            local="CASE WHEN {0} = '' THEN 0 ELSE CAST(unicode({0}) AS INTEGER) END", spark="ascii({0})"
        ),
        "md5(text)": both("md5({0})"),
        "md5(bytea)": Form(local="md5({0})", spark="md5({0})"),
        "overlay(text,text,int4)": both(_overlay),
        "overlay(text,text,int4,int4)": both(_overlay),
        "quote_literal(text)": local_only("tg_quote_literal({0})"),
        "quote_literal(anyelement)": local_only("tg_quote_literal({text:0})"),
        "quote_nullable(text)": local_only("coalesce(tg_quote_literal({0}), 'NULL')"),
        "quote_nullable(anyelement)": local_only("coalesce(tg_quote_literal({text:0}), 'NULL')"),
        "quote_ident(text)": local_only("tg_quote_identifier({0})"),
        "encode(bytea,text)": both(_encode),
        "decode(text,text)": local_only("tg_decode({0}, {1})"),
        "convert_from(bytea,name)": local_only("tg_convert_from({0}, {1})"),
        "convert_to(text,name)": local_only("tg_convert_to({0}, {1})"),
        "convert(bytea,name,name)": local_only("tg_convert({0}, {1}, {2})"),
        "length(bytea,name)": local_only("tg_length_in({0}, {1})"),
        "position(bytea,bytea)": local_only("tg_position_bytea({0}, {1})"),
        "set_byte(bytea,int4,int4)": local_only("tg_set_byte({0}, {1}, {2})"),
        "set_bit(bytea,int8,int4)": local_only("tg_set_bit({0}, {1}, {2})"),
        "overlay(bytea,bytea,int4)": Form(
            local="tg_overlay_bytea({0}, {1}, {2}, CAST(octet_length({1}) AS INTEGER))",
            spark=checked("tg_overlay_bytea({0}, {1}, {2}, octet_length({1}))"),
        ),
        "overlay(bytea,bytea,int4,int4)": local_only("tg_overlay_bytea({0}, {1}, {2}, {3})"),
        "btrim(bytea,bytea)": local_only("tg_trim_bytea({0}, {1}, 'b')"),
        "ltrim(bytea,bytea)": local_only("tg_trim_bytea({0}, {1}, 'l')"),
        "rtrim(bytea,bytea)": local_only("tg_trim_bytea({0}, {1}, 'r')"),
        "get_byte(bytea,int4)": local_only("tg_get_byte({0}, {1})"),
        "get_bit(bytea,int8)": local_only("tg_get_bit({0}, {1})"),
        "unistr(text)": local_only("tg_unistr({0})"),
        "normalize(text,text)": local_only("tg_normalize({0}, {1})"),
        "is_normalized(text,text)": local_only("(tg_normalize({0}, {1}) = {0})"),
        "parse_ident(text,bool)": local_only("tg_parse_ident({0}, {1})"),
        "to_hex(int4)": Form(
            local="printf('%x', CASE WHEN {0} < 0 THEN CAST({0} AS BIGINT) + 4294967296 ELSE CAST({0} AS BIGINT) END)",
            spark="lower(hex(CAST({0} AS BIGINT) & 4294967295L))",
        ),
        "to_hex(int8)": Form(local="tg_to_hex({0})", spark="lower(hex({0}))"),
    }
    for name, bits in _DIGESTS.items():
        local = "from_hex(sha256({0}))" if bits == 256 else f"tg_digest('{name}', {{0}})"
        given[f"{name}(bytea)"] = Form(local=local, spark=f"unhex(sha2({{0}}, {bits}))")
    return given
