"""Values as text by a pattern and back: to_char, to_date, to_timestamp, to_number."""

from __future__ import annotations

from collections.abc import Mapping

from planner.dialects.quoting import quoted
from planner.functions.engines.spark import checked
from planner.functions.forms.form import CallSite, Form, both
from planner.types.types import TIMESTAMPTZ


def _to_char_moment(site: CallSite) -> str | None:
    zoned = site.arg_types[0].oid == TIMESTAMPTZ
    source = site.dialect.to_local_time(site.settings.timezone) if zoned else "{0}"
    pattern = site.constants[1]
    if isinstance(pattern, str) and pattern:
        simple = _simple_pattern(pattern, site.engine)
        if simple is not None:
            return site.dialect.if_finite("{0}", _shown(site, source, simple), "NULL")
    zone = quoted(site.dialect.string(site.settings.timezone if zoned else ""))
    micros = site.dialect.moment_micros("{0}", site.arg_types[0].oid)
    made = site.dialect.python("tg_to_char_timestamp", micros, "{1}", zone)
    return site.dialect.if_finite("{0}", f"CASE WHEN {{1}} <> '' THEN {made} END", "NULL")


def _shown(site: CallSite, source: str, pattern: str) -> str:
    """A moment by the engine's own pattern; years that engines show otherwise are put into the text."""
    local = site.engine == "local"
    field = "%Y" if local else "yyyy"

    def by(template: str) -> str:
        quoted_template = "'" + template.replace("'", "''" if local else "\\'") + "'"
        return f"strftime({source}, {quoted_template})" if local else f"date_format({source}, {quoted_template})"

    if field not in pattern:
        return by(pattern)
    year = f"year({source})"
    count = f"CAST(CASE WHEN {year} > 0 THEN {year} ELSE 1 - {year} END AS {site.dialect.text})"
    digits = f"CASE WHEN length({count}) < 4 THEN lpad({count}, 4, '0') ELSE {count} END"
    other = f"replace({by(pattern.replace(field, '@' if local else chr(39) + '@' + chr(39)))}, '@', {digits})"
    return f"CASE WHEN {year} BETWEEN 1 AND 9999 THEN {by(pattern)} ELSE {other} END"


_SIMPLE_FIELDS = {
    "YYYY": ("%Y", "yyyy"),
    "MM": ("%m", "MM"),
    "DD": ("%d", "dd"),
    "HH24": ("%H", "HH"),
    "MI": ("%M", "mm"),
    "SS": ("%S", "ss"),
    "US": ("%f", "SSSSSS"),
    "HH12": ("%I", "hh"),
}


def _simple_pattern(pattern: str, engine: str) -> str | None:
    """The engine's own pattern for one made only of plain numeric fields and punctuation."""
    out: list[str] = []
    index = 0
    while index < len(pattern):
        if pattern.startswith("SSSS", index):
            # Seconds since midnight, no seconds twice.
            return None
        for field in ("HH24", "HH12", "YYYY", "MM", "DD", "MI", "SS", "US"):
            if pattern.startswith(field, index):
                out.append(_SIMPLE_FIELDS[field][0 if engine == "local" else 1])
                index += len(field)
                break
        else:
            if pattern[index] not in "-/.:, ":
                return None
            out.append(pattern[index])
            index += 1
    return "".join(out)


def _to_timestamp(site: CallSite) -> str:
    zone = quoted(site.dialect.string(site.settings.timezone))
    return site.dialect.moment_of_micros(site.dialect.python("tg_to_timestamp", "{0}", "{1}", zone), TIMESTAMPTZ)


def _to_date(site: CallSite) -> str:
    return site.dialect.date_of_days(site.dialect.python("tg_to_date", "{0}", "{1}"))


def forms() -> Mapping[str, Form]:
    """The family's forms."""
    given: dict[str, Form] = {}
    given["to_char(timestamp,text)"] = given["to_char(timestamptz,text)"] = both(_to_char_moment)
    interval = "tg_to_char_interval({0}, {1})"
    given["to_char(interval,text)"] = Form(
        local=f"CASE WHEN {{1}} <> '' THEN {interval} END", spark=f"CASE WHEN {{1}} <> '' THEN {checked(interval)} END"
    )
    for type in ("int4", "int8", "numeric", "float8", "float4"):
        shown = f"tg_to_char_number(CAST({{0}} AS {{text}}), {{1}}, '{type}')"
        given[f"to_char({type},text)"] = Form(
            local=shown.replace("{text}", "VARCHAR"), spark=checked(shown.replace("{text}", "STRING"))
        )
    given["to_date(text,text)"] = both(_to_date)
    given["to_timestamp(text,text)"] = both(_to_timestamp)
    number = "tg_to_number({0}, {1})"
    given["to_number(text,text)"] = Form(local=number, spark=checked(number))
    return given
