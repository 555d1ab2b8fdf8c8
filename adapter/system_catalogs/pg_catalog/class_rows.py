"""pg_class, pg_attribute, pg_attrdef, pg_type, pg_index, pg_constraint, pg_sequence and pg_rewrite of user objects.

The indexes of primary keys and unique constraints are there like all others. Node trees are SQL text. See
`derived_oids` for the oids of what the catalog does not record.
"""

from __future__ import annotations

from collections.abc import Iterator

from adapter.execution_context import Row
from adapter.system_catalogs.objects.attribute_rows import attribute_row
from adapter.system_catalogs.objects.builtin import builtin_columns
from adapter.system_catalogs.objects.content import Content, template
from adapter.system_catalogs.objects.objects import CatalogObjects
from planner.definitions.index_expressions import distinct_names
from planner.types import derived_oids
from planner.types.operator_classes import ACCESS_METHODS, type_in_index
from planner.types.table_indexes import constraint_of_index
from planner.types.types import BOOL, INT8, OID
from storage.catalog.model import COMPOSITE, Column, Constraint, DomainConstraint, DomainType, Index, Relation
from storage.catalog.temporary import is_temporary

HEAP_AM = 2


def _class_row(oid: int, **values: object) -> Row:
    """A row of pg_class: what every relation of ours has, and `values`."""
    return {
        "oid": oid,
        "reltype": 0,
        "reloftype": 0,
        "relam": 0,
        "relfilenode": 0,
        "reltablespace": 0,
        "relpages": 0,
        "reltuples": -1.0,
        "relallvisible": 0,
        "reltoastrelid": 0,
        "relhasindex": False,
        "relisshared": False,
        "relpersistence": "t" if is_temporary(derived_oids.owner(oid)) else "p",
        "relchecks": 0,
        "relhasrules": False,
        "relhastriggers": False,
        "relhassubclass": False,
        "relrowsecurity": False,
        "relforcerowsecurity": False,
        "relispopulated": True,
        "relreplident": "n",
        "relispartition": False,
        "relrewrite": 0,
        "relfrozenxid": 0,
        "relminmxid": 0,
        **values,
    }


def _options_of(relation: Relation) -> list[str] | None:
    """pg_class.reloptions. In PostgreSQL those of namespace toast are the toast table's, which there is not here."""
    known = relation.options if relation.materialized is None else relation.materialized.parameters
    own = [option for option in known if not option.startswith("toast.")]
    if relation.check_option is not None:
        own.append(f"check_option={relation.check_option}")
    return own or None


def pg_class(objects: CatalogObjects) -> Content:
    """Tables, views, sequences and indexes."""
    rows: list[Row] = []
    referenced = {c.foreign_relation for c in objects.constraints if c.foreign_relation is not None}
    indexed = {index.relation for index, _ in objects.indexes}
    for relation in objects.relations:
        constraints = objects.constraints_by_relation.get(relation.oid, ())
        stored = relation.kind in ("r", "m")
        rows.append(
            _class_row(
                oid=relation.oid,
                relname=relation.name,
                relnamespace=relation.schema,
                reltype=derived_oids.row_type_oid(relation.oid),
                reloftype=derived_oids.row_type_oid(relation.of_type) if relation.of_type else 0,
                relowner=relation.owner,
                relam=HEAP_AM if stored else 0,
                relfilenode=relation.oid if stored else 0,
                relhasindex=relation.oid in indexed,
                relkind=relation.kind,
                relnatts=len(relation.columns),
                relchecks=sum(constraint.kind == "c" for constraint in constraints),
                relhasrules=relation.kind in ("v", "m"),
                relhastriggers=relation.oid in referenced or any(c.kind == "f" for c in constraints),
                relreplident=relation.marks.identity if stored else "n",
                relispopulated=relation.materialized is None or relation.materialized.populated,
                relrowsecurity=objects.snapshot.policies.of(relation.oid).enabled,
                relforcerowsecurity=objects.snapshot.policies.of(relation.oid).forced,
                reloptions=_options_of(relation),
            )
        )
    rows.extend(
        _class_row(
            oid=sequence.oid,
            relname=sequence.name,
            relnamespace=sequence.schema,
            relowner=sequence.owner,
            relfilenode=sequence.oid,
            relpages=1,
            reltuples=1.0,
            relkind="S",
            relnatts=3,
        )
        for sequence in objects.sequences
    )
    for index, relation in objects.indexes:
        rows.append(
            _class_row(
                oid=index.oid,
                relname=index.name,
                relnamespace=relation.schema,
                relowner=relation.owner,
                relam=ACCESS_METHODS[index.method],
                relfilenode=index.oid,
                relkind="i",
                relnatts=len(index.columns) + len(index.include),
                reloptions=list(index.parameters) or None,
            )
        )
    return Content(columns=builtin_columns("pg_class"), rows=rows)


def _column_by_attnum(relation: Relation) -> dict[int, Column]:
    return {column.attnum: column for column in relation.columns}


_SYSTEM_ATTRIBUTES = (
    ("tableoid", -6, OID),
    ("cmax", -5, 29),
    ("xmax", -4, 28),
    ("cmin", -3, 29),
    ("xmin", -2, 28),
    ("ctid", -1, 27),
)

_SEQUENCE_ATTRIBUTES = (("last_value", 1, INT8), ("log_cnt", 2, INT8), ("is_called", 3, BOOL))


def pg_attribute(objects: CatalogObjects) -> Content:
    """Columns of tables, views, sequences and indexes, dropped and system columns among them."""
    rows: list[Row] = []
    for relation in objects.relations:
        if relation.kind not in ("v", COMPOSITE):
            for name, attnum, type_oid in _SYSTEM_ATTRIBUTES:
                rows.append(attribute_row(relation.oid, attnum, name, type_oid, stattarget=0, attnotnull=True))
        for column in relation.columns:
            if column.dropped:
                name = f"........pg.dropped.{column.attnum}........"
                rows.append(
                    attribute_row(
                        relation.oid, column.attnum, name, column.type_oid, stattarget=0, atttypid=0, attisdropped=True
                    )
                )
                continue
            rows.append(
                attribute_row(
                    relation.oid,
                    column.attnum,
                    column.name,
                    column.type_oid,
                    typmod=column.typmod,
                    **({"attndims": 0} if relation.kind in ("v", "m") else {}),
                    **({"attoptions": list(column.options)} if column.options else {}),
                    **({"attcollation": column.collation} if column.collation else {}),
                    stattarget=column.statistics,
                    attnotnull=column.not_null,
                    atthasdef=column.default is not None,
                    attidentity=column.identity,
                    attgenerated=column.generated,
                    **_foreign_options(relation, column),
                    atthasmissing=column.missing is not None,
                    attmissingval=None if column.missing is None else "{" + column.missing + "}",
                )
            )
    for sequence in objects.sequences:
        for name, attnum, type_oid in (*_SYSTEM_ATTRIBUTES, *_SEQUENCE_ATTRIBUTES):
            rows.append(attribute_row(sequence.oid, attnum, name, type_oid, attnotnull=True))
    for index, relation in objects.indexes:
        rows.extend(_index_attributes(index, relation))
    return Content(columns=builtin_columns("pg_attribute"), rows=rows)


def _foreign_options(relation: Relation, column: Column) -> Row:
    options = () if relation.foreign is None else relation.foreign.column_options(column.attnum)
    return {"attfdwoptions": [f"{name}={value}" for name, value in options]} if options else {}


def _index_attributes(index: Index, relation: Relation) -> Iterator[Row]:
    columns = _column_by_attnum(relation)
    expressions = zip(index.expression_names, index.expression_types, strict=True)
    taken: list[str] = []
    for position, attnum in enumerate((*index.columns, *index.include), 1):
        if attnum:
            name, type_oid, typmod = columns[attnum].name, columns[attnum].type_oid, columns[attnum].typmod
        else:
            name, (type_oid, typmod) = next(expressions)
        if position <= len(index.operator_classes):
            held = type_in_index(index.operator_classes[position - 1], type_oid, index.method)
            type_oid, typmod = held, typmod if held == type_oid else -1
        taken = distinct_names([*taken, name])
        collation = index.collations[position - 1] if position <= len(index.collations) else 0
        told = index.class_options[position - 1] if position <= len(index.class_options) else ()
        more: Row = {"attoptions": list(told)} if told else {}
        target = index.statistics[position - 1] if position <= len(index.statistics) else -1
        yield attribute_row(
            index.oid, position, taken[-1], type_oid, typmod=typmod, stattarget=target, attcollation=collation, **more
        )


def pg_attrdef(objects: CatalogObjects) -> Content:
    """Column defaults and the expressions of generated columns; `adbin` is their SQL text."""
    return Content(
        rows=[
            {"oid": oid, "adrelid": relation.oid, "adnum": column.attnum, "adbin": column.default}
            for oid, (relation, column) in objects.defaults.items()
        ]
    )


def pg_index(objects: CatalogObjects) -> Content:
    """Indexes; `indexprs` (several with commas between them) and `indpred` are SQL text."""
    rows: list[Row] = []
    for index, relation in objects.indexes:
        constraint = constraint_of_index(objects.snapshot, index.oid)
        rows.append(
            {
                "indexrelid": index.oid,
                "indrelid": relation.oid,
                "indnatts": len(index.columns) + len(index.include),
                "indnkeyatts": len(index.columns),
                "indisunique": index.unique,
                "indnullsnotdistinct": index.nulls_not_distinct,
                "indisprimary": constraint is not None and constraint.kind == "p",
                "indisexclusion": index.constraint is not None,
                "indimmediate": constraint is None or not constraint.deferrable,
                "indisclustered": relation.marks.clustered == index.oid,
                "indisvalid": index.valid,
                "indcheckxmin": False,
                "indisready": True,
                "indislive": True,
                "indisreplident": relation.marks.identity_index == index.oid,
                "indkey": [*index.columns, *index.include],
                "indcollation": list(index.collations),
                "indclass": list(index.operator_classes),
                "indoption": list(index.options),
                "indexprs": ", ".join(index.expressions) or None,
                "indpred": index.predicate,
            }
        )
    return Content(columns=builtin_columns("pg_index"), rows=rows)


def referenced_index(objects: CatalogObjects, constraint: Constraint) -> int:
    """The index of the key that a foreign key refers to, 0 when there is none."""
    for candidate in objects.constraints_by_relation.get(constraint.foreign_relation or 0, ()):
        if candidate.kind in ("p", "u") and sorted(candidate.columns) == sorted(constraint.foreign_columns):
            return derived_oids.index_oid(candidate.oid)
    for index in objects.snapshot.indexes(constraint.foreign_relation or 0):
        if index.unique and index.predicate is None and sorted(index.columns) == sorted(constraint.foreign_columns):
            return index.oid
    return 0


def pg_constraint(objects: CatalogObjects) -> Content:
    """Declared constraints; `conbin` is a check's SQL text."""
    rows: list[Row] = []
    for constraint in objects.constraints:
        relation = objects.snapshot.get(constraint.relation)
        if not isinstance(relation, Relation):
            continue
        foreign = constraint.kind == "f"
        index = 0
        if constraint.kind in ("p", "u"):
            index = derived_oids.index_oid(constraint.oid)
        elif constraint.kind == "x":
            index = constraint.index or 0
        elif foreign:
            index = referenced_index(objects, constraint)
        rows.append(
            {
                "oid": constraint.oid,
                "conname": constraint.name,
                "connamespace": relation.schema,
                "contype": constraint.kind,
                "condeferrable": constraint.deferrable,
                "condeferred": constraint.deferred,
                "convalidated": constraint.validated,
                "conrelid": constraint.relation,
                "contypid": 0,
                "conindid": index,
                "conparentid": 0,
                "confrelid": constraint.foreign_relation or 0,
                "confupdtype": constraint.on_update if foreign else " ",
                "confdeltype": constraint.on_delete if foreign else " ",
                "confmatchtype": constraint.match if foreign else " ",
                "conislocal": True,
                "coninhcount": 0,
                "connoinherit": constraint.kind != "c" or constraint.no_inherit,
                "conkey": list(constraint.columns) or None,
                "confkey": list(constraint.foreign_columns) if foreign else None,
                "confdelsetcols": list(constraint.delete_columns) or None,
                "conexclop": list(constraint.exclude_operators) or None,
                "conbin": constraint.expression,
            }
        )
    rows.extend(_domain_check_row(check, domain) for check, domain in objects.domain_checks.values())
    return Content(columns=builtin_columns("pg_constraint"), rows=rows)


def _domain_check_row(check: DomainConstraint, domain: DomainType) -> Row:
    return {
        "oid": check.oid,
        "conname": check.name,
        "connamespace": domain.schema,
        "contype": "c",
        "condeferrable": False,
        "condeferred": False,
        "convalidated": check.validated,
        "conrelid": 0,
        "contypid": derived_oids.row_type_oid(domain.oid),
        "conindid": 0,
        "conparentid": 0,
        "confrelid": 0,
        "confupdtype": " ",
        "confdeltype": " ",
        "confmatchtype": " ",
        "conislocal": True,
        "coninhcount": 0,
        "connoinherit": False,
        "conkey": None,
        "confkey": None,
        "confdelsetcols": None,
        "conexclop": None,
        "conbin": check.expression,
    }


def pg_sequence(objects: CatalogObjects) -> Content:
    """Sequence definitions."""
    return Content(
        rows=[
            {
                "seqrelid": sequence.oid,
                "seqtypid": sequence.type_oid,
                "seqstart": sequence.start,
                "seqincrement": sequence.increment,
                "seqmax": sequence.maximum,
                "seqmin": sequence.minimum,
                "seqcache": sequence.cache,
                "seqcycle": sequence.cycle,
            }
            for sequence in objects.sequences
        ]
    )


def pg_rewrite(objects: CatalogObjects) -> Content:
    """The _RETURN rule of each view; `ev_action` is the view's query."""
    pattern = template("pg_rewrite", "rulename", "_RETURN")
    return Content(
        columns=builtin_columns("pg_rewrite"),
        rows=[
            {
                **pattern,
                "oid": derived_oids.rule_oid(relation.oid),
                "ev_class": relation.oid,
                "ev_action": relation.definition,
            }
            for relation in objects.relations
            if relation.kind in ("v", "m")
        ],
    )
