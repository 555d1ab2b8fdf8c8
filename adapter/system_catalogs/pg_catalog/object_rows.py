"""pg_namespace, pg_authid, pg_database, pg_description, pg_shdescription, pg_depend and pg_db_role_setting."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from adapter.access.membership import memberships
from adapter.execution_context import Row
from adapter.system_catalogs.objects.builtin import builtin_columns, own_members
from adapter.system_catalogs.objects.content import Content
from adapter.system_catalogs.objects.definitions import generation_sources, is_identity
from adapter.system_catalogs.objects.named_columns import named_by
from adapter.system_catalogs.objects.objects import (
    PG_ATTRDEF,
    PG_AUTHID,
    PG_CLASS,
    PG_CONSTRAINT,
    PG_DATABASE,
    PG_EXTENSION,
    PG_FOREIGN_DATA_WRAPPER,
    PG_FOREIGN_SERVER,
    PG_NAMESPACE,
    PG_POLICY,
    PG_PROC,
    PG_REWRITE,
    PG_STATISTIC_EXT,
    PG_TYPE,
    PG_USER_MAPPING,
    PLPGSQL_OID,
    CatalogObjects,
)
from adapter.system_catalogs.pg_catalog.class_rows import referenced_index
from adapter.system_catalogs.pg_catalog.operator_rows import PG_OPCLASS, classes_made_by, made_with
from planner.catalog_data import content as catalog_data
from planner.types import derived_oids
from planner.types.operator_classes import extension_of
from planner.types.table_indexes import constraint_of_index
from planner.types.user_types import is_user_type, mentioned, relations_mentioned
from storage.catalog.access import Policy
from storage.catalog.model import BOOTSTRAP_SUPERUSER_OID, COMPOSITE, OWN_SCHEMA_OID, Relation
from storage.catalog.outside import LAKE_WRAPPER_OID
from storage.catalog.routines import Function
from storage.catalog.types import BaseType

UTF8 = 6
PG_DEFAULT_TABLESPACE = 1663
COLLATION = "C.UTF-8"
"""Bytewise order with Unicode character classes."""


PG_TOAST_NAMESPACE = 99
"""The schema of tables that hold long values: there are none, but clients look for it."""


def pg_namespace(objects: CatalogObjects) -> Content:
    """Schemas."""
    builtin = builtin_columns("pg_namespace")
    acl = dict(zip(builtin["oid"], builtin["nspacl"], strict=True))
    return Content(
        rows=[
            {
                "oid": schema.oid,
                "nspname": schema.name,
                "nspowner": schema.owner,
                "nspacl": acl.get(schema.origin or schema.oid),
            }
            for schema in objects.schemas
        ]
        + [
            {
                "oid": PG_TOAST_NAMESPACE,
                "nspname": "pg_toast",
                "nspowner": BOOTSTRAP_SUPERUSER_OID,
                "nspacl": acl.get(PG_TOAST_NAMESPACE),
            }
        ]
    )


def pg_authid(objects: CatalogObjects) -> Content:
    """Roles, PostgreSQL's predefined ones among them."""
    data = catalog_data.columns("pg_authid")
    own = {role.oid for role in objects.roles}
    rows: list[Row] = [
        row
        for row in (dict(zip(data, values, strict=True)) for values in zip(*data.values(), strict=True))
        if row["oid"] not in own
    ]
    rows.extend(
        {
            "oid": role.oid,
            "rolname": role.name,
            "rolsuper": role.superuser,
            "rolinherit": role.inherit,
            "rolcreaterole": role.create_role,
            "rolcreatedb": role.create_db,
            "rolcanlogin": role.login,
            "rolreplication": role.replication,
            "rolbypassrls": role.bypass_rls,
            "rolconnlimit": role.connection_limit,
            "rolpassword": role.password,
            "rolvaliduntil": role.valid_until_us,
        }
        for role in objects.roles
    )
    return Content(rows=rows)


def pg_auth_members(objects: CatalogObjects) -> Content:
    """Who is a member of which role."""
    return Content(
        rows=[
            {"roleid": each.role, "member": each.member, "grantor": each.grantor, "admin_option": each.admin_option}
            for each in memberships(objects.snapshot.roles)
        ]
    )


def pg_database(objects: CatalogObjects) -> Content:
    """Databases."""
    return Content(
        rows=[
            {
                "oid": database.oid,
                "datname": database.name,
                "datdba": database.owner,
                "encoding": UTF8,
                "datlocprovider": "c",
                "datistemplate": database.is_template,
                "datallowconn": database.allows_connections,
                "datconnlimit": database.connection_limit,
                "datfrozenxid": 0,
                "datminmxid": 0,
                "dattablespace": PG_DEFAULT_TABLESPACE,
                "datcollate": COLLATION,
                "datctype": COLLATION,
            }
            for database in objects.databases
        ]
    )


def pg_description(objects: CatalogObjects) -> Content:
    """Comments on what belongs to a database."""
    rows: list[Row] = [
        {"classoid": class_oid, "objoid": oid, "objsubid": subid, "description": text}
        for (class_oid, oid, subid), text in objects.descriptions.items()
        if class_oid not in (PG_DATABASE, PG_AUTHID)
    ]
    return Content(columns=builtin_columns("pg_description"), rows=rows)


def pg_shdescription(objects: CatalogObjects) -> Content:
    """Comments on databases and roles."""
    rows: list[Row] = [
        {"classoid": class_oid, "objoid": oid, "description": text}
        for (class_oid, oid, _), text in objects.descriptions.items()
        if class_oid in (PG_DATABASE, PG_AUTHID)
    ]
    known = {(row["classoid"], row["objoid"]) for row in rows}
    data = catalog_data.columns("pg_shdescription")
    for objoid, classoid, text in zip(data["objoid"], data["classoid"], data["description"], strict=True):
        record = objects.snapshot.get(objoid)
        if record is not None and (classoid, objoid) not in known:
            rows.append({"objoid": objoid, "classoid": classoid, "description": text})
    return Content(rows=rows)


def _depends(objid: tuple[int, int, int], refobjid: tuple[int, int, int], deptype: str) -> Row:
    return {
        "classid": objid[0],
        "objid": objid[1],
        "objsubid": objid[2],
        "refclassid": refobjid[0],
        "refobjid": refobjid[1],
        "refobjsubid": refobjid[2],
        "deptype": deptype,
    }


def _references(objects: CatalogObjects, objid: tuple[int, int, int], text: str) -> Iterator[Row]:
    """What a stored expression names besides columns: relations, types and functions."""
    for oid in relations_mentioned(text):
        yield _depends(objid, (PG_CLASS, oid, 0), "n")
    for oid in mentioned(text):
        catalog = objects.class_of(oid)
        yield _depends(objid, (catalog, derived_oids.row_type_oid(oid) if catalog == PG_TYPE else oid, 0), "n")


def _uses(objects: CatalogObjects, objid: tuple[int, int, int], record: Relation | Function | Policy) -> Iterator[Row]:
    """What the definition of a view, function or policy names: columns, and relations where it names none of these."""
    named = named_by(objects, record) if record.depends_on else None
    for oid in record.depends_on:
        if not isinstance(objects.snapshot.get(oid), Relation):
            yield _depends(objid, (objects.class_of(oid), oid, 0), "n")
        elif named is not None and oid in named.relations:
            yield from (_depends(objid, (PG_CLASS, oid, attnum), "n") for attnum in named.parts(oid))


def pg_depend(objects: CatalogObjects) -> Content:
    """What depends on what: views on what they read, defaults, constraints and indexes on columns, objects on their
    schemas."""
    rows: list[Row] = []
    for relation in objects.relations:
        self = (PG_CLASS, relation.oid, 0)
        row_type = (PG_TYPE, derived_oids.row_type_oid(relation.oid), 0)
        if relation.kind == COMPOSITE:
            rows.append(_depends(row_type, (PG_NAMESPACE, relation.schema, 0), "n"))
            rows.append(_depends(self, row_type, "i"))
        else:
            rows.append(_depends(self, (PG_NAMESPACE, relation.schema, 0), "n"))
            rows.append(_depends(row_type, self, "i"))
        rows.append(_depends((PG_TYPE, derived_oids.array_type_oid(relation.oid), 0), row_type, "i"))
        if relation.foreign is not None:
            rows.append(_depends(self, (PG_FOREIGN_SERVER, relation.foreign.server, 0), "n"))
        if relation.of_type:
            rows.append(_depends(self, (PG_TYPE, derived_oids.row_type_oid(relation.of_type), 0), "n"))
        if relation.kind in ("v", "m"):
            rule = (PG_REWRITE, derived_oids.rule_oid(relation.oid), 0)
            rows.append(_depends(rule, self, "i"))
            rows.append(_depends(rule, self, "n"))
            rows.extend(_uses(objects, rule, relation))
            rows.extend(_depends(rule, (PG_CONSTRAINT, oid, 0), "n") for oid in relation.needs_keys)
        rows.extend(
            _depends((PG_CLASS, relation.oid, column.attnum), (PG_TYPE, column.type_oid, 0), "n")
            for column in relation.live_columns()
            if is_user_type(column.type_oid)
        )
    for function in objects.functions:
        self = (PG_PROC, function.oid, 0)
        rows.append(_depends(self, (PG_NAMESPACE, function.schema, 0), "n"))
        types = dict.fromkeys([*(p.type_oid for p in function.parameters), function.result])
        rows.extend(_depends(self, (PG_TYPE, oid, 0), "n") for oid in types if is_user_type(oid))
        rows.extend(_uses(objects, self, function))
        for parameter in function.parameters:
            rows.extend(_references(objects, self, parameter.default or ""))
    for policy in (each for table in objects.snapshot.policies.by_table.values() for each in table.policies):
        self = (PG_POLICY, policy.oid, 0)
        rows.append(_depends(self, (PG_CLASS, policy.relation, 0), "a"))
        rows.extend(_depends(self, (PG_CLASS, policy.relation, attnum), "n") for attnum in policy.columns)
        rows.extend(each for each in _uses(objects, self, policy) if each["refobjid"] != policy.relation)
        for text in (policy.using, policy.check):
            rows.extend(_references(objects, self, text or ""))
    for extension in objects.extensions:
        self = (PG_EXTENSION, extension.oid, 0)
        rows.append(_depends(self, (PG_NAMESPACE, extension.schema, 0), "n"))
        rows.extend(_depends((*each, 0), self, "e") for each in classes_made_by(extension))
        for oid in extension.members:
            record = objects.snapshot.get(oid)
            of = objects.class_of(oid)
            member = (of, derived_oids.row_type_oid(oid) if of == PG_TYPE else oid)
            rows.append(_depends((*member, 0), self, "e"))
            if isinstance(record, BaseType):
                rows.extend(_depends((*each, 0), self, "e") for each in made_with(record))
    rows.extend(_own_dependencies())
    # Dumps leave out what an extension has brought, and this one is in every database.
    rows.append(_depends((PG_FOREIGN_DATA_WRAPPER, LAKE_WRAPPER_OID, 0), (PG_EXTENSION, PLPGSQL_OID, 0), "e"))
    for server in objects.foreign_servers:
        self = (PG_FOREIGN_SERVER, server.oid, 0)
        rows.append(_depends(self, (PG_FOREIGN_DATA_WRAPPER, LAKE_WRAPPER_OID, 0), "n"))
        rows.extend(_depends((PG_USER_MAPPING, each.oid, 0), self, "n") for each in server.mappings)
    for enum in objects.enums:
        of_enum = (PG_TYPE, derived_oids.row_type_oid(enum.oid), 0)
        rows.append(_depends(of_enum, (PG_NAMESPACE, enum.schema, 0), "n"))
        rows.append(_depends((PG_TYPE, derived_oids.array_type_oid(enum.oid), 0), of_enum, "i"))
    for base in objects.base_types:
        of_base = (PG_TYPE, derived_oids.row_type_oid(base.oid), 0)
        rows.append(_depends(of_base, (PG_NAMESPACE, base.schema, 0), "n"))
        rows.append(_depends((PG_TYPE, derived_oids.array_type_oid(base.oid), 0), of_base, "i"))
    for domain in objects.domains:
        of_domain = (PG_TYPE, derived_oids.row_type_oid(domain.oid), 0)
        rows.append(_depends(of_domain, (PG_NAMESPACE, domain.schema, 0), "n"))
        rows.append(_depends((PG_TYPE, derived_oids.array_type_oid(domain.oid), 0), of_domain, "i"))
        if is_user_type(domain.base_oid):
            rows.append(_depends(of_domain, (PG_TYPE, domain.base_oid, 0), "n"))
        for check in domain.checks:
            of_check = (PG_CONSTRAINT, check.oid, 0)
            rows.append(_depends(of_check, of_domain, "a"))
            rows.extend(_references(objects, of_check, check.expression))
        rows.extend(_references(objects, of_domain, domain.default or ""))
    for sequence in objects.sequences:
        rows.append(_depends((PG_CLASS, sequence.oid, 0), (PG_NAMESPACE, sequence.schema, 0), "n"))
        if sequence.owned_by is not None:
            internal = is_identity(objects, sequence)
            rows.append(_depends((PG_CLASS, sequence.oid, 0), (PG_CLASS, *sequence.owned_by), "i" if internal else "a"))
    for oid, (table, column) in objects.defaults.items():
        self = (PG_ATTRDEF, oid, 0)
        rows.append(_depends(self, (PG_CLASS, table.oid, column.attnum), "i" if column.generated else "a"))
        if column.generated:
            sources = generation_sources(objects, table, column)
            rows.extend(_depends(self, (PG_CLASS, table.oid, attnum), "n") for attnum in sources)
        rows.extend(_references(objects, self, column.default or ""))
    for constraint in objects.constraints:
        if isinstance(objects.snapshot.get(constraint.relation), Relation):
            self = (PG_CONSTRAINT, constraint.oid, 0)
            kinds = "an" if constraint.kind == "c" else "a"
            rows.extend(
                _depends(self, (PG_CLASS, constraint.relation, attnum), kind)
                for attnum in (*constraint.columns, *constraint.include)
                for kind in kinds
            )
            if not constraint.columns:
                rows.append(_depends(self, (PG_CLASS, constraint.relation, 0), "a"))
            rows.extend(_references(objects, self, constraint.expression or ""))
            if constraint.foreign_relation is not None:
                rows.extend(
                    _depends(self, (PG_CLASS, constraint.foreign_relation, attnum), "n")
                    for attnum in constraint.foreign_columns
                )
                rests_on = referenced_index(objects, constraint)
                if rests_on:
                    rows.append(_depends(self, (PG_CLASS, rests_on, 0), "n"))
    for statistics in objects.statistics:
        self = (PG_STATISTIC_EXT, statistics.oid, 0)
        attnums = dict.fromkeys([*(statistics.columns or (0,)), *statistics.reads])
        rows.extend(_depends(self, (PG_CLASS, statistics.relation, attnum), "a") for attnum in attnums)
        rows.append(_depends(self, (PG_NAMESPACE, statistics.schema, 0), "n"))
        for text in statistics.expressions:
            rows.extend(_references(objects, self, text))
    for index, table in objects.indexes:
        self = (PG_CLASS, index.oid, 0)
        owner = constraint_of_index(objects.snapshot, index.oid)
        if owner is not None:
            rows.append(_depends(self, (PG_CONSTRAINT, owner.oid, 0), "i"))
            continue
        named = dict.fromkeys(attnum for attnum in (*index.columns, *index.include) if attnum)
        rows.extend(_depends(self, (PG_CLASS, table.oid, attnum), "a") for attnum in named or (0,))
        rows.extend(_depends(self, (PG_CLASS, table.oid, attnum), "a") for attnum in index.reads if attnum not in named)
        made = dict.fromkeys(oid for oid in index.operator_classes if extension_of(oid) is not None)
        rows.extend(_depends(self, (PG_OPCLASS, oid, 0), "n") for oid in made)
        for text in (*index.expressions, index.predicate or ""):
            rows.extend(_references(objects, self, text))
    return Content(rows=rows)


@cache
def _own_dependencies() -> tuple[Row, ...]:
    """What is in the schema `tidegate` belongs to the extension that every database has, so that dumps leave it out."""
    extension, schema = (PG_EXTENSION, PLPGSQL_OID, 0), (PG_NAMESPACE, OWN_SCHEMA_OID, 0)
    members = [(catalog, oid, 0) for catalog, oid in own_members()]
    return tuple(
        [_depends(member, extension, "e") for member in members]
        + [_depends(member, schema, "n") for member in members if member != schema]
    )


def pg_db_role_setting(objects: CatalogObjects) -> Content:
    """ALTER DATABASE / ROLE ... SET, one row for each pair."""
    grouped: dict[tuple[int, int], list[str]] = {}
    for setting in objects.settings:
        grouped.setdefault((setting.database, setting.role), []).append(f"{setting.name}={setting.value}")
    return Content(
        rows=[
            {"setdatabase": database, "setrole": role, "setconfig": values}
            for (database, role), values in grouped.items()
        ]
    )
