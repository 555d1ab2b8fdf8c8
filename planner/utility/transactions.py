"""BEGIN, COMMIT, savepoints, prepared transactions and SET CONSTRAINTS."""

from collections.abc import Callable, Mapping
from typing import Any

from planner.statements import records as st
from planner.syntax.libpg_query import pb
from planner.syntax.names import qualified_name
from planner.syntax.parse import Parsed, Tree


def _transaction(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    kind = tree.kind
    if kind in (pb.TRANS_STMT_BEGIN, pb.TRANS_STMT_START):
        return st.Begin(modes=transaction_modes(tree.options), start=kind == pb.TRANS_STMT_START)
    if kind == pb.TRANS_STMT_COMMIT:
        return st.Commit(chain=tree.chain)
    if kind == pb.TRANS_STMT_ROLLBACK:
        return st.Rollback(chain=tree.chain)
    if kind == pb.TRANS_STMT_SAVEPOINT:
        return st.Savepoint(name=tree.savepoint_name)
    if kind == pb.TRANS_STMT_RELEASE:
        return st.Release(name=tree.savepoint_name)
    if kind == pb.TRANS_STMT_ROLLBACK_TO:
        return st.RollbackTo(name=tree.savepoint_name)
    if kind == pb.TRANS_STMT_PREPARE:
        return st.PreparedTransaction(action="prepare", gid=tree.gid)
    if kind == pb.TRANS_STMT_COMMIT_PREPARED:
        return st.PreparedTransaction(action="commit", gid=tree.gid)
    return st.PreparedTransaction(action="rollback", gid=tree.gid)


def transaction_modes(options: Any) -> st.TransactionModes:
    """What a statement says of the transaction: isolation level, READ ONLY, DEFERRABLE; None for what it does not."""
    isolation: str | None = None
    read_only: bool | None = None
    deferrable: bool | None = None
    for option in options:
        element = option.def_elem
        value = element.arg.a_const
        if element.defname == "transaction_isolation":
            isolation = value.sval.sval
        elif element.defname == "transaction_read_only":
            read_only = bool(value.ival.ival)
        elif element.defname == "transaction_deferrable":
            deferrable = bool(value.ival.ival)
    return st.TransactionModes(isolation=isolation, read_only=read_only, deferrable=deferrable)


def _set_constraints(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    names = tuple(qualified_name(node.range_var, parsed) for node in tree.constraints)
    return st.SetConstraints(names=names, deferred=tree.deferred)


BUILDERS: Mapping[str, Callable[[Parsed, Tree], st.UtilityStatement]] = {
    "transaction_stmt": _transaction,
    "constraints_set_stmt": _set_constraints,
}
"""By kind of parse tree: what makes its statement."""
