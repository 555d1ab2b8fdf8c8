"""COPY, with its options checked and filled in as PostgreSQL's ProcessCopyOptions does."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from planner.catalog_data.encodings import canonical_name, is_convertible
from planner.common_errors import redundant_options
from planner.errors import (
    FeatureNotSupported,
    InvalidParameterValue,
    InvalidTextRepresentation,
    SqlSyntaxError,
    UndefinedFunction,
)
from planner.statements import records as st
from planner.syntax.file_names import format_of
from planner.syntax.later_grammar import JSON_NAME
from planner.syntax.names import qualified_name
from planner.syntax.options import option_text
from planner.syntax.parse import Parsed, Tree


def _options(tree: Tree, parsed: Parsed) -> st.CopyOptions:
    """The options of a CopyStmt. Raises 42601 (redundant, unknown), 22023 and 0A000 with PostgreSQL's texts."""
    given: dict[str, Any] = {}
    for node in tree.options:
        element = node.def_elem
        name = element.defname.lower()
        position = parsed.position(element.location)
        if name not in _KNOWN:
            raise SqlSyntaxError(f'option "{element.defname}" not recognized', position=position)
        if name in given:
            raise redundant_options(position)
        given[name] = _value(name, element, position)
        if name == "on_error" and not tree.is_from:
            raise InvalidParameterValue("COPY ON_ERROR cannot be used with COPY TO", position=position)
    if tree.filename and not tree.is_program:
        given.setdefault("format", _format_of(tree.filename))
    return _check(given, is_from=tree.is_from)


_KNOWN = {
    "format", "delimiter", "null", "header", "quote", "escape", "force_quote", "force_not_null", "force_null", "freeze",
    "encoding", "convert_selectively", "default", "on_error", "log_verbosity", "reject_limit", "compression",
    "partition_by", "file_size",
}  # fmt: skip
_LISTS = {"force_quote", "force_not_null", "force_null", "partition_by"}
_FORMATS = ("text", "csv", "binary", "parquet", "json")
_OF_TEXT = (
    "delimiter", "null", "default", "header", "quote", "escape", "force_quote", "force_not_null", "force_null",
    "encoding",
)  # fmt: skip
"""Options that Parquet and JSON files do not have."""

_CODECS = {
    "parquet": ("zstd", "snappy", "gzip", "lz4", "brotli", "none"),
    "text": ("none", "gzip", "zstd", "bz2", "lz4"),
}
_SIZE = re.compile(r"([0-9]{1,12})\s*(kB|MB|GB|B)?", re.IGNORECASE)
_UNITS = {"b": 1, "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30}


def _format_of(filename: str) -> str:
    """The format of a file that is named without one: what PostgreSQL takes, but for names that say another one."""
    found = format_of(filename)
    return found if found in ("parquet", "json") else "text"


def _value(name: str, element: Tree, position: int | None) -> Any:
    if name in _LISTS:
        kind = element.arg.WhichOneof("node") if element.HasField("arg") else None
        if kind == "a_star" and name != "partition_by":
            return None
        if kind == "list":
            return tuple(item.string.sval for item in element.arg.list.items)
        raise InvalidParameterValue(f'argument to option "{name}" must be a list of column names', position=position)
    text = option_text(element)
    if name == "format":
        text = "json" if text == JSON_NAME else text
        if text not in _FORMATS:
            raise InvalidParameterValue(f'COPY format "{text}" not recognized', position=position)
        return text
    if name == "header":
        folded = (text or "true").lower()
        if folded == "match":
            return "match"
        if folded in ("true", "on", "1"):
            return True
        if folded in ("false", "off", "0"):
            return False
        raise SqlSyntaxError('header requires a Boolean value or "match"')
    if name == "freeze":
        folded = (text or "true").lower()
        if folded in ("true", "on", "1", "false", "off", "0"):
            return folded in ("true", "on", "1")
        raise SqlSyntaxError("freeze requires a Boolean value")
    if text is None:
        raise SqlSyntaxError(f"{name} requires a parameter")
    if name == "encoding":
        return _encoding(text, position)
    if name in _CHOICES:
        if text.lower() not in _CHOICES[name]:
            raise InvalidParameterValue(f'COPY {name.upper()} "{text}" not recognized', position=position)
        return text.lower()
    if name == "reject_limit":
        return _limit(text)
    if name == "file_size":
        size = _SIZE.fullmatch(text)
        if size is None or not int(size[1]):
            raise InvalidParameterValue(
                f'invalid value for option "file_size": "{text}"',
                hint='Give a number with one of the units "B", "kB", "MB" and "GB".',
                position=position,
            )
        return int(size[1]) * _UNITS[(size[2] or "B").lower()]
    return text


_CHOICES = {"on_error": ("stop", "ignore"), "log_verbosity": ("silent", "default", "verbose")}


def _limit(text: str) -> int:
    try:
        limit = int(text)
    except ValueError:
        raise InvalidTextRepresentation(f'invalid input syntax for type bigint: "{text}"') from None
    if limit <= 0:
        raise InvalidParameterValue(f"REJECT_LIMIT ({limit}) must be greater than zero")
    return limit


def _check(given: dict[str, Any], *, is_from: bool) -> st.CopyOptions:
    output = given.get("format", "text")
    csv, binary = output == "csv", output == "binary"
    _check_files(output, given, is_from=is_from)
    if binary:
        if "delimiter" in given:
            raise SqlSyntaxError("cannot specify DELIMITER in BINARY mode")
        if "null" in given:
            raise SqlSyntaxError("cannot specify NULL in BINARY mode")
        if "default" in given:
            raise SqlSyntaxError("cannot specify DEFAULT in BINARY mode")
    delimiter = given.get("delimiter", "," if csv else "\t")
    null = given.get("null", "" if csv else "\\N")
    quote = given.get("quote", '"')
    escape = given.get("escape", quote)
    if len(delimiter.encode()) != 1:
        raise FeatureNotSupported("COPY delimiter must be a single one-byte character")
    if delimiter in "\r\n":
        raise InvalidParameterValue("COPY delimiter cannot be newline or carriage return")
    if "\r" in null or "\n" in null:
        raise InvalidParameterValue("COPY null representation cannot use newline or carriage return")
    default = given.get("default")
    if default is not None and ("\r" in default or "\n" in default):
        raise InvalidParameterValue("COPY default representation cannot use newline or carriage return")
    if not csv and delimiter in "\\.abcdefghijklmnopqrstuvwxyz0123456789":
        raise InvalidParameterValue(f'COPY delimiter cannot be "{delimiter}"')
    if binary and given.get("header"):
        raise FeatureNotSupported("cannot specify HEADER in BINARY mode")
    for name in ("quote", "escape"):
        if not csv and name in given:
            raise FeatureNotSupported(f"COPY {name} available only in CSV mode")
    if csv and len(quote.encode()) != 1:
        raise FeatureNotSupported("COPY quote must be a single one-byte character")
    if csv and delimiter == quote:
        raise InvalidParameterValue("COPY delimiter and quote must be different")
    if csv and len(escape.encode()) != 1:
        raise FeatureNotSupported("COPY escape must be a single one-byte character")
    for name in ("force_quote", "force_not_null", "force_null"):
        label = name.replace("_", " ")
        if name in given and not csv:
            raise FeatureNotSupported(f"COPY {label} available only in CSV mode")
        if name in given and is_from == (name == "force_quote"):
            raise FeatureNotSupported(f"COPY {label} only available using COPY {'TO' if is_from else 'FROM'}")
    if delimiter in null:
        raise FeatureNotSupported("COPY delimiter must not appear in the NULL specification")
    if csv and quote in null:
        raise FeatureNotSupported("CSV quote character must not appear in the NULL specification")
    if default is not None:
        _check_default(default, delimiter, null, quote if csv else None, is_from=is_from)
    _check_errors(output, given)
    header = given.get("header", False)
    if header == "match" and not is_from:
        raise FeatureNotSupported('cannot use "match" with HEADER in COPY TO')
    return st.CopyOptions(
        format=output,
        delimiter=delimiter,
        null=null,
        header=bool(header),
        header_match=header == "match",
        quote=quote,
        escape=escape,
        force_quote=given.get("force_quote", ()),
        force_not_null=given.get("force_not_null", ()),
        force_null=given.get("force_null", ()),
        default=default,
        ignores_errors=given.get("on_error") == "ignore",
        reject_limit=given.get("reject_limit"),
        log_verbosity=given.get("log_verbosity", "default"),
        freeze=given.get("freeze", False),
        encoding=given.get("encoding"),
        compression=given.get("compression", "").lower() or None,
        partition_by=given.get("partition_by", ()),
        file_size=given.get("file_size"),
    )


def _check_default(default: str, delimiter: str, null: str, quote: str | None, *, is_from: bool) -> None:
    """What stands for a column's default must be told from all else. 0A000."""
    if not is_from:
        raise FeatureNotSupported("COPY DEFAULT cannot be used with COPY TO")
    if delimiter in default:
        raise FeatureNotSupported("COPY delimiter character must not appear in the DEFAULT specification")
    if quote is not None and quote in default:
        raise FeatureNotSupported("CSV quote character must not appear in the DEFAULT specification")
    if default == null:
        raise FeatureNotSupported("NULL specification and DEFAULT specification cannot be the same")


def _check_errors(output: str, given: dict[str, Any]) -> None:
    """ON_ERROR is for data that is text, and REJECT_LIMIT for ON_ERROR. 42601, 22023."""
    ignores = given.get("on_error") == "ignore"
    if ignores and output not in ("text", "csv"):
        raise SqlSyntaxError(f"only ON_ERROR STOP is allowed in {output.upper()} mode")
    if "reject_limit" in given and not ignores:
        raise InvalidParameterValue("COPY REJECT_LIMIT requires ON_ERROR to be set to IGNORE")


def _check_files(output: str, given: dict[str, Any], *, is_from: bool) -> None:
    """The options of files: 0A000 for one that the format or direction has not, 22023 for a bad value."""
    if output in ("parquet", "json"):
        for name in _OF_TEXT:
            if name in given:
                raise FeatureNotSupported(f"cannot specify {name.upper()} in {output.upper()} mode")
    for name in ("partition_by", "file_size"):
        if is_from and name in given:
            raise FeatureNotSupported(f"COPY {name} only available using COPY TO")
    compression = given.get("compression")
    known = _CODECS["parquet" if output == "parquet" else "text"]
    if compression is not None and compression.lower() not in known:
        raise InvalidParameterValue(f'COPY compression "{compression}" not recognized for format {output}')
    names = given.get("partition_by", ())
    if len(set(names)) != len(names):
        raise InvalidParameterValue('argument to option "partition_by" names a column twice')


def _encoding(text: str, position: int | None) -> str:
    """The encoding's own name. 22023 for a name that no encoding has, 42883 for one that nothing converts to."""
    name = canonical_name(text)
    if name is None:
        raise InvalidParameterValue('argument to option "encoding" must be a valid encoding name', position=position)
    if not is_convertible(name):
        raise UndefinedFunction(f'default conversion function for encoding "UTF8" to "{name}" does not exist')
    return name


def _copy(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    columns = tuple(item.string.sval for item in tree.attlist)
    return st.Copy(
        table=qualified_name(tree.relation, parsed) if tree.HasField("relation") else None,
        query=parsed.part(tree.query) if tree.HasField("query") else None,
        columns=columns,
        is_from=tree.is_from,
        filename=tree.filename or None,
        program=tree.is_program,
        options=_options(tree, parsed),
        where=parsed.expression(tree.where_clause) if tree.HasField("where_clause") else None,
    )


BUILDERS: Mapping[str, Callable[[Parsed, Tree], st.UtilityStatement]] = {"copy_stmt": _copy}
"""By kind of parse tree: what makes its statement."""
