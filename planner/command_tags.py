"""Command tags: what CommandComplete says (PostgreSQL, "Message Formats"). Row counts are the adapter's to add."""

from __future__ import annotations

from planner.ir.bound import BoundDelete, BoundInsert, BoundMerge, BoundQuery, BoundUpdate
from planner.statements import foreign as ft
from planner.statements import records as st
from planner.syntax.object_kinds import words_of

_FIXED: dict[type, str] = {
    BoundQuery: "SELECT",
    BoundInsert: "INSERT",
    BoundUpdate: "UPDATE",
    BoundDelete: "DELETE",
    BoundMerge: "MERGE",
    st.Commit: "COMMIT",
    st.Rollback: "ROLLBACK",
    st.RollbackTo: "ROLLBACK",
    st.Savepoint: "SAVEPOINT",
    st.Release: "RELEASE",
    st.SetTransaction: "SET",
    st.SetVariable: "SET",
    st.Reset: "RESET",
    st.Show: "SHOW",
    st.AlterSystem: "ALTER SYSTEM",
    st.CreateTable: "CREATE TABLE",
    st.RefreshMaterializedView: "REFRESH MATERIALIZED VIEW",
    st.CreateView: "CREATE VIEW",
    st.CreateSchema: "CREATE SCHEMA",
    st.CreateIndex: "CREATE INDEX",
    st.CreateStatistics: "CREATE STATISTICS",
    st.AlterStatistics: "ALTER STATISTICS",
    st.CreatePolicy: "CREATE POLICY",
    st.AlterPolicy: "ALTER POLICY",
    st.CreateSequence: "CREATE SEQUENCE",
    st.AlterSequence: "ALTER SEQUENCE",
    st.CreateEnum: "CREATE TYPE",
    st.CreateRange: "CREATE TYPE",
    st.CreateDomain: "CREATE DOMAIN",
    st.SetDomainDefault: "ALTER DOMAIN",
    st.SetDomainNotNull: "ALTER DOMAIN",
    st.AddDomainCheck: "ALTER DOMAIN",
    st.ValidateDomainCheck: "ALTER DOMAIN",
    st.DropDomainCheck: "ALTER DOMAIN",
    st.CreateComposite: "CREATE TYPE",
    st.AddEnumValue: "ALTER TYPE",
    st.RenameEnumValue: "ALTER TYPE",
    st.Truncate: "TRUNCATE TABLE",
    st.Comment: "COMMENT",
    st.Copy: "COPY",
    st.Explain: "EXPLAIN",
    st.Prepare: "PREPARE",
    st.DeclareCursor: "DECLARE CURSOR",
    st.Listen: "LISTEN",
    st.Unlisten: "UNLISTEN",
    st.Notify: "NOTIFY",
    st.Lock: "LOCK TABLE",
    st.Checkpoint: "CHECKPOINT",
    st.Cluster: "CLUSTER",
    st.Reindex: "REINDEX",
    st.AlterDefaultPrivileges: "ALTER DEFAULT PRIVILEGES",
    st.CreateDatabase: "CREATE DATABASE",
    st.AlterDatabase: "ALTER DATABASE",
    st.RefreshCollation: "ALTER DATABASE",
    st.CreateExtension: "CREATE EXTENSION",
    st.AlterExtension: "ALTER EXTENSION",
    st.DropDatabase: "DROP DATABASE",
    st.CreateRole: "CREATE ROLE",
    st.AlterRole: "ALTER ROLE",
    st.AlterGroup: "ALTER ROLE",
    st.DropOwned: "DROP OWNED",
    st.ReassignOwned: "REASSIGN OWNED",
    st.DropRole: "DROP ROLE",
    st.Do: "DO",
    st.SetConstraints: "SET CONSTRAINTS",
    st.CallProcedure: "CALL",
    st.Publish: "CALL",
    st.AddFiles: "CALL",
    st.RestoreTable: "CALL",
    st.CloneTable: "CALL",
    st.UndropTable: "CALL",
    st.Execute: "EXECUTE",
    ft.CreateServer: "CREATE SERVER",
    ft.AlterServer: "ALTER SERVER",
    ft.CreateUserMapping: "CREATE USER MAPPING",
    ft.AlterUserMapping: "ALTER USER MAPPING",
    ft.DropUserMapping: "DROP USER MAPPING",
    ft.CreateForeignTable: "CREATE FOREIGN TABLE",
    ft.ImportForeignSchema: "IMPORT FOREIGN SCHEMA",
}
_PREPARED = {"prepare": "PREPARE TRANSACTION", "commit": "COMMIT PREPARED", "rollback": "ROLLBACK PREPARED"}


def command_tag(statement: object) -> str:
    """The tag of a bound or utility statement, without row counts (`SELECT`, `INSERT`, `CREATE TABLE`, ...).

    CREATE TABLE AS and SELECT INTO are `SELECT`; EXECUTE's tag is that of what it runs.
    """
    fixed = _FIXED.get(type(statement))
    if fixed is not None:
        return fixed
    match statement:
        case st.Begin(start=start):
            return "START TRANSACTION" if start else "BEGIN"
        case st.PreparedTransaction(action=action):
            return _PREPARED[action]
        case st.CreateTableAs(materialized_view=True):
            return "CREATE MATERIALIZED VIEW"
        case st.CreateTableAs():
            return "SELECT"
        case st.CreateRoutine(kind=kind):
            return f"CREATE {kind.upper()}"
        case st.AlterRoutine(routine=routine):
            return f"ALTER {routine.kind.upper()}"
        case st.Drop(kind=kind):
            return f"DROP {words_of(kind)}"
        case st.AlterTable(kind=kind) | st.RenameColumn(kind=kind) | st.RenameRelation(kind=kind):
            return f"ALTER {kind.upper()}"
        case st.SetSchema(kind=kind) | st.AlterOwner(kind=kind) | st.ChangeTypeOwner(kind=kind):
            return f"ALTER {kind.upper()}"
        case st.RenameObject(kind=kind):
            return "ALTER TABLE" if kind == "constraint" else f"ALTER {kind.removesuffix(' constraint').upper()}"
        case st.SetSchemaOptions():
            return "ALTER SCHEMA"
        case st.AlterSetting(database=database, role=role):
            return "ALTER ROLE" if role is not None or database is None else "ALTER DATABASE"
        case st.Discard(target=target):
            return f"DISCARD {target.upper()}"
        case st.Deallocate(name=name):
            return "DEALLOCATE ALL" if name is None else "DEALLOCATE"
        case st.Fetch(move=move):
            return "MOVE" if move else "FETCH"
        case st.CloseCursor(name=name):
            return "CLOSE CURSOR ALL" if name is None else "CLOSE CURSOR"
        case st.Vacuum(analyze_only=analyze_only):
            return "ANALYZE" if analyze_only else "VACUUM"
        case st.Grant(grant=grant):
            return "GRANT" if grant else "REVOKE"
        case st.GrantRole(grant=grant):
            return "GRANT ROLE" if grant else "REVOKE ROLE"
    raise TypeError(f"not a statement: {statement!r}")
