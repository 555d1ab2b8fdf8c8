"""CREATE TYPE, ALTER TYPE of enums, CREATE and ALTER DOMAIN."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from planner.definitions.deparse import expression_text
from planner.errors import DatatypeMismatch, FeatureNotSupported, InvalidObjectDefinition, SqlSyntaxError
from planner.statements import records as st
from planner.syntax.identifiers import quote_identifier
from planner.syntax.libpg_query import pb
from planner.syntax.names import name_from_list, qualified_name, statement_title, strings
from planner.syntax.options import option_text
from planner.syntax.parse import Parsed, Tree, split_and_parse
from planner.types.type_names import check_collatable, check_collation, format_type, resolve_type_name, type_row
from planner.types.types import SqlType
from planner.utility.tables import column_definition, constraint_definition


def _create_composite(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    name = qualified_name(tree.typevar, parsed)
    attributes = [column_definition(node.column_def, parsed, name.name)[0] for node in tree.coldeflist]
    return st.CreateComposite(name=name, attributes=tuple(attributes))


def _unsupported(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    if tree.kind != pb.OBJECT_TYPE:
        raise FeatureNotSupported(f"{statement_title(parsed)} is not supported")
    if not tree.definition:
        raise FeatureNotSupported("shell types are not supported")
    raise FeatureNotSupported("CREATE TYPE of base types is not supported")


def _create_enum(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    return st.CreateEnum(name=name_from_list(tree.type_name), labels=tuple(value.string.sval for value in tree.vals))


def _create_range(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    subtype: SqlType | None = None
    multirange: st.QualifiedName | None = None
    named: dict[str, tuple[str, ...]] = {}
    seen: set[str] = set()
    for node in tree.params:
        element = node.def_elem
        name = element.defname
        if name not in _RANGE_PARAMETERS:
            raise SqlSyntaxError(f'type attribute "{name}" not recognized')
        if name in seen:
            raise SqlSyntaxError("conflicting or redundant options", position=parsed.position(element.location))
        seen.add(name)
        if not element.HasField("arg"):
            raise SqlSyntaxError(f"{name} requires a parameter")
        kind = element.arg.WhichOneof("node")
        value = getattr(element.arg, kind)
        if name == "subtype":
            subtype = _subtype(parsed, value) if kind == "type_name" else _subtype_in_words(parsed, element)
        elif kind not in ("type_name", "string", "list"):
            raise SqlSyntaxError(f"argument of {name} must be a name")
        else:
            names = strings(value.names if kind == "type_name" else value.items) if kind != "string" else (value.sval,)
            named[name] = names
            if name == "multirange_type_name":
                multirange = st.QualifiedName(name=names[-1], schema=names[-2] if len(names) > 1 else None)
    if subtype is None:
        raise SqlSyntaxError('type attribute "subtype" is required')
    if "canonical" in named:
        raise InvalidObjectDefinition(
            "cannot specify a canonical function without a pre-created shell type",
            hint="Create the type as a shell type, then create its canonicalization function, then do a full "
            "CREATE TYPE.",
        )
    return st.CreateRange(
        name=name_from_list(tree.type_name),
        subtype=subtype,
        operator_class=named.get("subtype_opclass", ()),
        collation=named.get("collation", ()),
        difference=named.get("subtype_diff", ()),
        multirange=multirange,
    )


_RANGE_PARAMETERS = frozenset({
    "subtype", "subtype_opclass", "collation", "canonical", "subtype_diff", "multirange_type_name",
})  # fmt: skip


def _subtype(parsed: Parsed, node: Tree) -> SqlType:
    type = resolve_type_name(node, parsed, located=False)
    row = type_row(type.declared_oid)
    if row is not None and row.type == "p":
        raise DatatypeMismatch(f"range subtype cannot be {format_type(type.declared_oid)}")
    return type.without_typmod()


def _subtype_in_words(parsed: Parsed, element: Tree) -> SqlType:
    """A subtype that is written as a string."""
    cast = f"SELECT NULL::{quote_identifier(option_text(element) or '')}"
    return _subtype(parsed, split_and_parse(cast)[0].tree.target_list[0].res_target.val.type_cast.type_name)


def _alter_enum(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    name = name_from_list(tree.type_name)
    if tree.old_val:
        return st.RenameEnumValue(name=name, label=tree.old_val, new_label=tree.new_val)
    return st.AddEnumValue(
        name=name,
        label=tree.new_val,
        neighbor=tree.new_val_neighbor or None,
        after=tree.new_val_is_after,
        if_not_exists=tree.skip_if_new_val_exists,
    )


_IMPOSSIBLE = {
    pb.CONSTR_UNIQUE: "unique",
    pb.CONSTR_PRIMARY: "primary key",
    pb.CONSTR_EXCLUSION: "exclusion",
    pb.CONSTR_FOREIGN: "foreign key",
}
"""Constraints that only tables have."""


def _domain_check(tree: Tree, parsed: Parsed) -> st.ConstraintDefinition:
    """A CHECK of a domain. Raises 42601 and 0A000 for other constraints, 42P17 for one without heirs."""
    if tree.contype in _IMPOSSIBLE:
        raise SqlSyntaxError(f"{_IMPOSSIBLE[tree.contype]} constraints not possible for domains")
    if tree.contype in (pb.CONSTR_GENERATED, pb.CONSTR_IDENTITY):
        raise FeatureNotSupported("specifying GENERATED not supported for domains")
    if tree.contype != pb.CONSTR_CHECK:
        raise FeatureNotSupported("specifying constraint deferrability not supported for domains")
    if tree.is_no_inherit:
        raise InvalidObjectDefinition("check constraints for domains cannot be marked NO INHERIT")
    return constraint_definition(tree, parsed, None)


def _create_domain(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    type = resolve_type_name(tree.type_name, parsed)
    row = type_row(type.declared_oid)
    if row is None or row.type == "p":
        name = format_type(type.declared_oid)
        raise DatatypeMismatch(f'"{name}" is not a valid base type for a domain')
    collation: str | None = None
    if tree.HasField("coll_clause"):
        names, position = strings(tree.coll_clause.collname), parsed.position(tree.coll_clause.location)
        check_collatable(type, None)
        check_collation(names, position)
        collation = names[-1]
    not_null: bool | None = None
    default: Tree | None = None
    checks: list[st.ConstraintDefinition] = []
    for node in tree.constraints:
        constraint = node.constraint
        if constraint.contype == pb.CONSTR_DEFAULT:
            if default is not None:
                raise SqlSyntaxError("multiple default expressions")
            default = constraint.raw_expr
        elif constraint.contype in (pb.CONSTR_NOTNULL, pb.CONSTR_NULL):
            wanted = constraint.contype == pb.CONSTR_NOTNULL
            if not_null is not None and not_null != wanted:
                raise SqlSyntaxError("conflicting NULL/NOT NULL constraints")
            not_null = wanted
        else:
            checks.append(_domain_check(constraint, parsed))
    return st.CreateDomain(
        name=name_from_list(tree.domainname),
        type=type,
        collation=collation,
        not_null=bool(not_null),
        default=None if default is None else expression_text(default),
        written_default=None if default is None else parsed.expression(default),
        checks=tuple(checks),
    )


def _alter_domain(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    name = name_from_list(tree.type_name)
    definition = getattr(tree, "def")
    match tree.subtype:
        case "T":
            given = tree.HasField("def")
            return st.SetDomainDefault(
                name=name,
                default=expression_text(definition) if given else None,
                written=parsed.expression(definition) if given else None,
            )
        case "N" | "O":
            return st.SetDomainNotNull(name=name, not_null=tree.subtype == "O")
        case "C":
            return st.AddDomainCheck(name=name, check=_domain_check(definition.constraint, parsed))
        case "V":
            return st.ValidateDomainCheck(name=name, constraint=tree.name)
        case _:
            return st.DropDomainCheck(name=name, constraint=tree.name, if_exists=tree.missing_ok)


BUILDERS: Mapping[str, Callable[[Parsed, Tree], st.UtilityStatement]] = {
    "composite_type_stmt": _create_composite,
    "define_stmt": _unsupported,
    "create_enum_stmt": _create_enum,
    "create_range_stmt": _create_range,
    "alter_enum_stmt": _alter_enum,
    "create_domain_stmt": _create_domain,
    "alter_domain_stmt": _alter_domain,
}
"""By kind of parse tree: what makes its statement."""
