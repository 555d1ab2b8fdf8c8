"""Names in parse trees: relations, roles, and the titles of statements."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from planner.common_errors import improper_relation_name, missing_role
from planner.errors import FeatureNotSupported, SqlSyntaxError
from planner.syntax.libpg_query import pb
from planner.syntax.object_kinds import OBJECT_KINDS
from planner.syntax.parse import Parsed, Tree
from planner.syntax.qualified_names import QualifiedName


def qualified_name(node: Tree, parsed: Parsed) -> QualifiedName:
    """The name in a RangeVar."""
    return QualifiedName(
        name=node.relname,
        schema=node.schemaname or None,
        database=node.catalogname or None,
        position=parsed.position(node.location),
    )


def name_from_list(items: Iterable[Tree]) -> QualifiedName:
    """The name in a list of String nodes: [[database.]schema.]name. Raises 42601 for more parts."""
    parts = strings(items)
    if len(parts) > 3:
        raise improper_relation_name(".".join(parts))
    return QualifiedName(
        name=parts[-1],
        schema=parts[-2] if len(parts) > 1 else None,
        database=parts[-3] if len(parts) > 2 else None,
    )


def qualifier(names: Sequence[str], database: str, position: int | None = None) -> str | None:
    """The schema in a possibly qualified name that is not a relation's (DeconstructQualifiedName). Raises 0A000 for
    another database, 42601 for more than three parts."""
    if len(names) > 3:
        raise SqlSyntaxError(f"improper qualified name (too many dotted names): {'.'.join(names)}", position=position)
    if len(names) == 3 and names[0] != database:
        raise FeatureNotSupported(
            f"cross-database references are not implemented: {'.'.join(names)}", position=position
        )
    return names[-2] if len(names) > 1 else None


def strings(items: Iterable[Tree]) -> tuple[str, ...]:
    """The texts of a list of String nodes."""
    return tuple(item.string.sval for item in items)


def oid_text(node: Tree) -> str:
    """A number that stands in the place of a name: a large object's."""
    return node.float.fval if node.WhichOneof("node") == "float" else str(node.integer.ival)


CURRENT_USER, SESSION_USER = "\0current_user", "\0session_user"
"""What stands for the roles that a session acts as, which no name can be."""


def role_name(node: Tree) -> str:
    """The role in a RoleSpec; the key words CURRENT_USER, CURRENT_ROLE and SESSION_USER are `CURRENT_USER` and
    `SESSION_USER`, which the caller resolves. Raises 42704 for PUBLIC."""
    if node.roletype == pb.ROLESPEC_CSTRING:
        return str(node.rolename)
    if node.roletype == pb.ROLESPEC_CURRENT_USER or node.roletype == pb.ROLESPEC_CURRENT_ROLE:
        return CURRENT_USER
    if node.roletype == pb.ROLESPEC_SESSION_USER:
        return SESSION_USER
    raise missing_role("public")


_TITLES = {
    "merge_stmt": "MERGE",
    "alter_tsconfiguration_stmt": "ALTER TEXT SEARCH CONFIGURATION",
    "alter_tsdictionary_stmt": "ALTER TEXT SEARCH DICTIONARY",
    "composite_type_stmt": "CREATE TYPE",
    "create_enum_stmt": "CREATE TYPE ... AS ENUM",
    "create_range_stmt": "CREATE TYPE ... AS RANGE",
    "alter_enum_stmt": "ALTER TYPE",
    "alter_type_stmt": "ALTER TYPE",
    "create_domain_stmt": "CREATE DOMAIN",
    "alter_domain_stmt": "ALTER DOMAIN",
    "create_trig_stmt": "CREATE TRIGGER",
    "create_plang_stmt": "CREATE LANGUAGE",
    "create_function_stmt": "CREATE FUNCTION",
    "alter_function_stmt": "ALTER FUNCTION",
    "alter_extension_stmt": "ALTER EXTENSION",
    "rule_stmt": "CREATE RULE",
    "create_cast_stmt": "CREATE CAST",
    "create_publication_stmt": "CREATE PUBLICATION",
    "create_subscription_stmt": "CREATE SUBSCRIPTION",
    "create_table_space_stmt": "CREATE TABLESPACE",
    "drop_table_space_stmt": "DROP TABLESPACE",
    "create_fdw_stmt": "CREATE FOREIGN DATA WRAPPER",
    "create_foreign_server_stmt": "CREATE SERVER",
    "create_foreign_table_stmt": "CREATE FOREIGN TABLE",
    "create_user_mapping_stmt": "CREATE USER MAPPING",
    "create_event_trig_stmt": "CREATE EVENT TRIGGER",
    "create_stats_stmt": "CREATE STATISTICS",
    "create_am_stmt": "CREATE ACCESS METHOD",
    "create_op_class_stmt": "CREATE OPERATOR CLASS",
    "create_op_family_stmt": "CREATE OPERATOR FAMILY",
    "create_conversion_stmt": "CREATE CONVERSION",
    "create_transform_stmt": "CREATE TRANSFORM",
    "load_stmt": "LOAD",
    "sec_label_stmt": "SECURITY LABEL",
    "reassign_owned_stmt": "REASSIGN OWNED",
    "drop_owned_stmt": "DROP OWNED",
    "import_foreign_schema_stmt": "IMPORT FOREIGN SCHEMA",
    "alter_database_stmt": "ALTER DATABASE",
    "alter_object_depends_stmt": "ALTER ... DEPENDS ON EXTENSION",
}


def statement_title(parsed: Parsed) -> str:
    """What to call a statement in a message: CREATE TRIGGER, ..."""
    if parsed.kind == "define_stmt":
        return f"CREATE {OBJECT_KINDS[parsed.tree.kind].upper()}"
    title = _TITLES.get(parsed.kind)
    if title is not None:
        return title
    words = re.findall(r"[A-Za-z]+", parsed.source)[:2]
    return " ".join(word.upper() for word in words)
