"""pg_operator, pg_cast, pg_opclass and pg_opfamily: what PostgreSQL has, and what extensions have made over their
types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from adapter.execution_context import Row
from adapter.system_catalogs.objects.content import Content, template
from adapter.system_catalogs.objects.objects import CatalogObjects
from planner.catalog_data import content as catalog_data
from planner.catalog_data.content import type_by_name
from planner.extensions.operator_classes import OVER_BUILTIN_TYPES, OperatorClass
from planner.functions import of_extensions
from planner.types.base_types import KINDS
from planner.types.derived_oids import row_type_oid
from planner.types.signature import Signature
from planner.types.type_names import format_type
from storage.catalog.model import BOOTSTRAP_SUPERUSER_OID, PG_CATALOG_OID
from storage.catalog.outside import Extension
from storage.catalog.types import BaseType

PG_CAST, PG_OPCLASS, PG_OPERATOR, PG_OPFAMILY = 2605, 2616, 2617, 2753

_COMMUTATORS: Mapping[str, str] = {
    "=": "=", "<>": "<>", "<": ">", ">": "<", "<=": ">=", ">=": "<=", "~<~": "~>~", "~>~": "~<~", "~<=~": "~>=~",
    "~>=~": "~<=~", "#<#": "#>#", "#>#": "#<#", "#<=#": "#>=#", "#>=#": "#<=#", "@>": "<@", "<@": "@>",
}  # fmt: skip
_NEGATORS: Mapping[str, str] = {
    "=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">", "~<~": "~>=~", "~>=~": "~<~", "~>~": "~<=~",
    "~<=~": "~>~", "#<#": "#>=#", "#>=#": "#<#", "#>#": "#<=#", "#<=#": "#>#", "~~": "!~~", "!~~": "~~", "~~*": "!~~*",
    "!~~*": "~~*", "~": "!~", "!~": "~", "~*": "!~*", "!~*": "~*",
}  # fmt: skip
_NOTHING = 0


def pg_operator(objects: CatalogObjects) -> Content:
    """The built-in operators, and those over types that extensions have made."""
    rows = list(chain.from_iterable(_operators(objects, record) for record in objects.base_types))
    return Content(columns=catalog_data.columns("pg_operator"), rows=rows)


def _operators(objects: CatalogObjects, record: BaseType) -> Iterator[Row]:
    signatures = of_extensions.all_operators(record)
    oids = {(signature.name, signature.args): signature.oid for signature in signatures}
    like = template("pg_operator", "oprname", "?")
    functions = of_extensions.functions_behind(record.kind)
    for signature in signatures:
        name, args = signature.name, signature.args
        is_equality = name == "="
        yield {
            **like,
            "oid": signature.oid,
            "oprname": name,
            "oprnamespace": record.schema,
            "oprowner": BOOTSTRAP_SUPERUSER_OID,
            "oprkind": "b" if len(args) == 2 else "l",
            "oprcanmerge": is_equality,
            "oprcanhash": is_equality,
            "oprleft": args[0] if len(args) == 2 else _NOTHING,
            "oprright": args[-1],
            "oprresult": signature.result,
            "oprcom": oids.get((_COMMUTATORS.get(name, ""), args), _NOTHING),
            "oprnegate": oids.get((_NEGATORS.get(name, ""), args), _NOTHING),
            "oprcode": _function(objects, record, (functions[name], "slice_array"), args),
            "oprrest": _NOTHING,
            "oprjoin": _NOTHING,
        }


def _function(objects: CatalogObjects, record: BaseType, names: Sequence[str], args: tuple[int, ...]) -> int:
    """The function of the type's extension with one of the names and these arguments; 0 when there is none."""
    for name in names:
        for function in objects.snapshot.functions(record.schema, name):
            if function.input_types == args:
                return function.oid
    return _NOTHING


def pg_cast(objects: CatalogObjects) -> Content:
    """The built-in casts, and those from and to types that extensions have made."""
    rows = list(chain.from_iterable(_casts(objects, record) for record in objects.base_types))
    return Content(columns=catalog_data.columns("pg_cast"), rows=rows)


def _casts(objects: CatalogObjects, record: BaseType) -> Iterator[Row]:
    kind, own = KINDS[record.kind], row_type_oid(record.oid)
    for place, ((source, target), rule) in enumerate(kind.casts.items()):
        names = (record.kind, f"{record.kind}_to_{format_type(target)}" if target else record.kind)
        yield {
            "oid": kind.first_cast + place,
            "castsource": source or own,
            "casttarget": target or own,
            "castfunc": _function(objects, record, names, (source or own,)) if rule.function else _NOTHING,
            "castcontext": rule.context,
            "castmethod": "f" if rule.function else "b",
        }


def pg_opclass(objects: CatalogObjects) -> Content:
    """The built-in operator classes, and those that extensions have made."""
    rows: list[Row] = [
        {
            "oid": each.oid,
            "opcmethod": template("pg_am", "amname", each.method)["oid"],
            "opcname": each.name,
            "opcnamespace": record.schema,
            "opcowner": BOOTSTRAP_SUPERUSER_OID,
            "opcfamily": each.family,
            "opcintype": row_type_oid(record.oid) if isinstance(record, BaseType) else _builtin(each.input),
            "opcdefault": each.is_default,
            "opckeytype": _builtin(each.key) if each.key else _NOTHING,
        }
        for record, each in _classes(objects)
    ]
    return Content(columns=catalog_data.columns("pg_opclass"), rows=rows)


def pg_opfamily(objects: CatalogObjects) -> Content:
    """The built-in operator families, and those that extensions have made."""
    rows = [
        {
            "oid": each.family,
            "opfmethod": template("pg_am", "amname", each.method)["oid"],
            "opfname": each.name,
            "opfnamespace": record.schema,
            "opfowner": BOOTSTRAP_SUPERUSER_OID,
        }
        for record, each in _classes(objects)
    ]
    return Content(columns=catalog_data.columns("pg_opfamily"), rows=rows)


def _classes(objects: CatalogObjects) -> Iterator[tuple[BaseType | Extension, OperatorClass]]:
    for record in objects.base_types:
        for each in KINDS[record.kind].operator_classes:
            yield record, each
    for extension in objects.extensions:
        for each in OVER_BUILTIN_TYPES.get(extension.name, ()):
            yield extension, each


def _builtin(type_name: str) -> int:
    return type_by_name()[PG_CATALOG_OID, type_name].oid


def classes_made_by(extension: Extension) -> Iterator[tuple[int, int]]:
    """The classes (oids of catalogs) and oids of the operator classes over built-in types that it has made, and of
    their families."""
    for each in OVER_BUILTIN_TYPES.get(extension.name, ()):
        yield PG_OPCLASS, each.oid
        yield PG_OPFAMILY, each.family


def made_with(record: BaseType) -> Iterator[tuple[int, int]]:
    """The classes (oids of catalogs) and oids of what an extension has made with its type."""
    operators: Sequence[Signature] = of_extensions.all_operators(record)
    kind = KINDS[record.kind]
    yield from ((PG_OPERATOR, operator.oid) for operator in operators)
    yield from ((PG_CAST, kind.first_cast + place) for place in range(len(kind.casts)))
    for each in kind.operator_classes:
        yield PG_OPCLASS, each.oid
        yield PG_OPFAMILY, each.family
