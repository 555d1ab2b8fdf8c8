"""The structured formats of EXPLAIN, laid out as PostgreSQL does (explain.c)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias
from xml.sax.saxutils import escape

from adapter.results import ColumnDescription
from planner.statements.records import Explain
from planner.types import types as t
from planner.types.types import SqlType

Group: TypeAlias = Mapping[str, Any]
"""Properties by name: texts, numbers, truth values, None, lists of texts, groups and lists of groups."""

_NAMESPACE = "http://www.postgresql.org/2009/explain"
_NOT_OF_TAGS = re.compile(r"[^A-Za-z0-9\-_.]")


def as_json(group: Group) -> str:
    """FORMAT JSON: a list of what one query gives."""
    return json.dumps([group], indent=2)


def as_yaml(group: Group) -> str:
    """FORMAT YAML. Texts are quoted always, as in JSON."""
    return "\n".join(_yaml_item(group, 0))


def as_xml(group: Group) -> str:
    """FORMAT XML."""
    lines = [f'<explain xmlns="{_NAMESPACE}">', "  <Query>", *_xml_group(group, 4), "  </Query>", "</explain>"]
    return "\n".join(lines)


def result_column(statement: Explain) -> ColumnDescription:
    """The column that EXPLAIN gives (ExplainResultDesc)."""
    return ColumnDescription(name="QUERY PLAN", type=SqlType(_RESULT_TYPES.get(statement.format, t.TEXT)))


_RESULT_TYPES = {"json": t.JSON, "xml": t.XML}
FORMATS: Mapping[str, Callable[[Group], str]] = {"json": as_json, "yaml": as_yaml, "xml": as_xml}


def _yaml_item(group: Group, indent: int) -> Iterator[str]:
    """A group as an item of a list."""
    for place, line in enumerate(_yaml_group(group, indent + 2)):
        yield line if place else f"{' ' * indent}- {line[indent + 2 :]}"


def _yaml_group(group: Group, indent: int) -> Iterator[str]:
    for name, value in group.items():
        start = f"{' ' * indent}{name}: "
        if isinstance(value, Mapping):
            yield start
            yield from _yaml_group(value, indent + 2)
        elif isinstance(value, Sequence) and not isinstance(value, str):
            yield start
            for item in value:
                if isinstance(item, Mapping):
                    yield from _yaml_item(item, indent + 2)
                else:
                    yield f"{' ' * (indent + 2)}- {json.dumps(item)}"
        else:
            yield start + json.dumps(value)


def _xml_group(group: Group, indent: int) -> Iterator[str]:
    for name, value in group.items():
        tag = _NOT_OF_TAGS.sub("-", name)
        if isinstance(value, Mapping):
            yield from _xml_enclosed(tag, _xml_group(value, indent + 2), indent)
        elif isinstance(value, Sequence) and not isinstance(value, str):
            yield from _xml_enclosed(tag, _xml_items(tag, value, indent + 2), indent)
        else:
            yield f"{' ' * indent}<{tag}>{_xml_text(value)}</{tag}>"


def _xml_enclosed(tag: str, lines: Iterator[str], indent: int) -> Iterator[str]:
    yield f"{' ' * indent}<{tag}>"
    yield from lines
    yield f"{' ' * indent}</{tag}>"


def _xml_items(tag: str, items: Sequence[Any], indent: int) -> Iterator[str]:
    """The items of a list: of `Plans` each is a `Plan`."""
    for item in items:
        if isinstance(item, Mapping):
            yield from _xml_enclosed(tag.removesuffix("s"), _xml_group(item, indent + 2), indent)
        else:
            yield f"{' ' * indent}<Item>{_xml_text(item)}</Item>"


def _xml_text(value: object) -> str:
    if value is None:
        return ""
    return escape(value if isinstance(value, str) else json.dumps(value), {"\r": "&#x0d;"})
