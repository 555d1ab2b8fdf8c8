"""LIKE, SIMILAR TO and regular expressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from planner.dialects.quoting import quoted
from planner.functions.forms.form import CallSite, Form, NotConstant, both, local_only
from planner.functions.udfs.regex import compiled, first_is_longest
from planner.functions.udfs.regular_expressions import like_with_escape, similar_to_regex, translate


def literal(site: CallSite, text: str) -> str:
    """A string constant inside a template."""
    return quoted(site.dialect.string(text))


def like(*, negated: bool, insensitive: bool) -> Callable[[CallSite], str]:
    """LIKE, or (`insensitive`) ILIKE."""
    word = ("NOT " if negated else "") + ("ILIKE" if insensitive else "LIKE")

    def template(site: CallSite) -> str:
        pattern = site.constants[1]
        if isinstance(pattern, str) and "\\" not in pattern:
            return f"({{0}} {word} {{1}})"
        escape = " ESCAPE '\\'" if site.engine == "local" else ""
        plain = f"({{0}} {word} {{1}}{escape})"
        if isinstance(pattern, NotConstant):
            slash = literal(site, "\\")
            bare = f"rtrim({{1}}, {slash})" if site.engine == "local" else f"rtrim({slash}, {{1}})"
            is_unended = f"right({{1}}, 1) = {slash} AND (length({{1}}) - length({bare})) % 2 = 1"
            before = "concat(left({1}, length({1}) - 1), '_%')"
            unended = _like_unended(site, before, escape, insensitive=insensitive, negated=negated)
            return f"CASE WHEN {is_unended} THEN {unended} ELSE {plain} END"
        if isinstance(pattern, str) and (len(pattern) - len(pattern.rstrip("\\"))) % 2:
            before = literal(site, pattern[:-1] + "_%")
            return _like_unended(site, before, escape, insensitive=insensitive, negated=negated)
        return plain

    return template


def _like_unended(site: CallSite, before: str, escape: str, *, insensitive: bool, negated: bool) -> str:
    """LIKE of a pattern at whose end a backslash stands alone: it matches nothing, and is an error where PostgreSQL
    comes to it, which takes what matches before it and one character more (MatchText), SQL of which is `before`."""
    word = "ILIKE" if insensitive else "LIKE"
    reached = f"{{0}} {word} {before}{escape}"
    fault = site.dialect.raise_sql("22025", "LIKE pattern must not end with escape character")
    otherwise = "TRUE" if negated else "FALSE"
    return f"CASE WHEN {reached} THEN {fault} WHEN {{0}} IS NOT NULL THEN {otherwise} END"


def match(*, negated: bool, insensitive: bool) -> Callable[[CallSite], str | None]:
    """Whether a regular expression matches."""
    word = "NOT " if negated else ""

    def template(site: CallSite) -> str | None:
        pattern = site.constants[1]
        translated = translate(pattern, site.engine, ignore_case=insensitive) if isinstance(pattern, str) else None
        if isinstance(pattern, str):
            compiled(pattern, "")
        if translated is not None:
            if site.engine == "local":
                return f"({word}regexp_matches({{0}}, {literal(site, translated)}))"
            return f"({word}({{0}} RLIKE {literal(site, translated)}))"
        if site.engine == "local":
            return f"({word}tg_regexp_like({{0}}, {{1}}, '{'i' if insensitive else ''}'))"
        return None

    return template


def _like_bytea(word: str) -> Callable[[CallSite], str]:
    return lambda site: f"({word}{site.dialect.python('tg_like_bytea', '{0}', '{1}')})"


def _like_escape(site: CallSite) -> str | None:
    pattern, escape = site.constants
    if isinstance(pattern, str) and isinstance(escape, str):
        return literal(site, like_with_escape(pattern, escape))
    return "tg_like_escape({0}, {1})" if site.engine == "local" else None


def _similar(site: CallSite) -> str | None:
    pattern = site.constants[0]
    escape = site.constants[1] if len(site.constants) > 1 else "\\"
    if isinstance(pattern, str) and isinstance(escape, str):
        return literal(site, similar_to_regex(pattern, escape))
    if len(site.constants) > 1:
        return "tg_similar_to_escape({0}, {1})" if site.engine == "local" else None
    return site.dialect.python("tg_similar_to_escape", "{0}", literal(site, "\\"))


def _replace(site: CallSite) -> str | None:
    flags = site.constants[3] if len(site.constants) > 3 else ""
    pattern, replacement = site.constants[1], site.constants[2]
    if site.engine == "spark":
        if isinstance(pattern, str) and isinstance(replacement, str) and isinstance(flags, str) and "g" in flags:
            translated = translate(pattern, "spark", flags=flags) if first_is_longest(pattern) else None
            if translated is not None and "\\" not in replacement:
                java = replacement.replace("$", "\\$")
                return f"regexp_replace({{0}}, {literal(site, translated)}, {literal(site, java)})"
        return None
    return (
        "tg_regexp_replace({0}, {1}, {2}, {3})" if len(site.constants) > 3 else "tg_regexp_replace({0}, {1}, {2}, '')"
    )


def forms() -> Mapping[str, Form]:
    """The family's forms."""
    given: dict[str, Form] = {}
    for type in ("text", "name", "bpchar"):
        for symbol, negated, insensitive in (
            ("~~", False, False), ("!~~", True, False), ("~~*", False, True), ("!~~*", True, True),
        ):  # fmt: skip
            given[f"{symbol}({type},text)"] = both(like(negated=negated, insensitive=insensitive))
        for symbol, negated, insensitive in (
            ("~", False, False), ("!~", True, False), ("~*", False, True), ("!~*", True, True),
        ):  # fmt: skip
            given[f"{symbol}({type},text)"] = both(match(negated=negated, insensitive=insensitive))
    # A function in Python of bytes: the engines' own LIKE wants texts.
    for name, word in (("~~", ""), ("like", ""), ("!~~", "NOT "), ("notlike", "NOT ")):
        given[f"{name}(bytea,bytea)"] = both(_like_bytea(word))
    given["like_escape(bytea,bytea)"] = both(lambda site: site.dialect.python("tg_like_escape_bytea", "{0}", "{1}"))
    given["like(text,text)"] = both(like(negated=False, insensitive=False))
    given["notlike(text,text)"] = both(like(negated=True, insensitive=False))
    given["like_escape(text,text)"] = Form(local=_like_escape, spark=_like_escape)
    given["similar_to_escape(text)"] = Form(local=_similar, spark=_similar)
    given["similar_to_escape(text,text)"] = Form(local=_similar, spark=_similar)
    given["regexp_replace(text,text,text)"] = Form(local=_replace, spark=_replace)
    given["regexp_replace(text,text,text,text)"] = Form(local=_replace, spark=_replace)
    given["regexp_replace(text,text,text,int4)"] = local_only("tg_regexp_replace_from({0}, {1}, {2}, {3}, 1, '')")
    given["regexp_replace(text,text,text,int4,int4)"] = local_only(
        "tg_regexp_replace_from({0}, {1}, {2}, {3}, {4}, '')"
    )
    given["regexp_replace(text,text,text,int4,int4,text)"] = local_only(
        "tg_regexp_replace_from({0}, {1}, {2}, {3}, {4}, {5})"
    )
    given["regexp_match(text,text)"] = local_only("tg_regexp_match({0}, {1}, '')")
    given["regexp_match(text,text,text)"] = local_only("tg_regexp_match({0}, {1}, {2})")
    given["regexp_like(text,text)"] = local_only("tg_regexp_like({0}, {1}, '')")
    given["regexp_like(text,text,text)"] = local_only("tg_regexp_like_once({0}, {1}, {2})")
    given["regexp_count(text,text)"] = local_only("tg_regexp_count({0}, {1}, 1, '')")
    given["regexp_count(text,text,int4)"] = local_only("tg_regexp_count({0}, {1}, {2}, '')")
    given["regexp_count(text,text,int4,text)"] = local_only("tg_regexp_count({0}, {1}, {2}, {3})")
    given["regexp_instr(text,text)"] = local_only("tg_regexp_instr({0}, {1}, 1, 1, 0, '', 0)")
    given["regexp_instr(text,text,int4)"] = local_only("tg_regexp_instr({0}, {1}, {2}, 1, 0, '', 0)")
    given["regexp_instr(text,text,int4,int4)"] = local_only("tg_regexp_instr({0}, {1}, {2}, {3}, 0, '', 0)")
    given["regexp_instr(text,text,int4,int4,int4)"] = local_only("tg_regexp_instr({0}, {1}, {2}, {3}, {4}, '', 0)")
    given["regexp_instr(text,text,int4,int4,int4,text)"] = local_only(
        "tg_regexp_instr({0}, {1}, {2}, {3}, {4}, {5}, 0)"
    )
    given["regexp_instr(text,text,int4,int4,int4,text,int4)"] = local_only(
        "tg_regexp_instr({0}, {1}, {2}, {3}, {4}, {5}, {6})"
    )
    given["regexp_substr(text,text,int4,int4,text)"] = local_only("tg_regexp_substr({0}, {1}, {2}, {3}, {4}, 0)")
    given["regexp_substr(text,text,int4,int4,text,int4)"] = local_only("tg_regexp_substr({0}, {1}, {2}, {3}, {4}, {5})")
    given["regexp_substr(text,text)"] = local_only("tg_regexp_substr({0}, {1}, 1, 1, '', 0)")
    given["regexp_substr(text,text,int4)"] = local_only("tg_regexp_substr({0}, {1}, {2}, 1, '', 0)")
    given["regexp_substr(text,text,int4,int4)"] = local_only("tg_regexp_substr({0}, {1}, {2}, {3}, '', 0)")
    for name in ("regexp_split_to_array", "regexp_split_to_table"):
        given[f"{name}(text,text)"] = local_only(f"tg_regexp_split({{0}}, {{1}}, '', '{name}')")
        given[f"{name}(text,text,text)"] = local_only(f"tg_regexp_split({{0}}, {{1}}, {{2}}, '{name}')")
    given["substring(text,text)"] = local_only("tg_regexp_substring({0}, {1})")
    given["substring(text,text,text)"] = local_only("tg_similar_substring({0}, {1}, {2})")
    given["regexp_matches(text,text)"] = local_only("tg_regexp_matches({0}, {1}, '')")
    given["regexp_matches(text,text,text)"] = local_only("tg_regexp_matches({0}, {1}, {2})")
    return given
