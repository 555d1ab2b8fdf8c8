"""SET, RESET, SHOW, ALTER SYSTEM, ALTER DATABASE and ALTER ROLE ... SET, DISCARD."""

from collections.abc import Callable, Mapping
from typing import Any

from planner.errors import FeatureNotSupported
from planner.statements import records as st
from planner.syntax.identifiers import quote_identifier
from planner.syntax.libpg_query import pb
from planner.syntax.names import role_name
from planner.syntax.parse import Parsed, Tree
from planner.utility.transactions import transaction_modes

_LIST_QUOTED = {"search_path", "temp_tablespaces", "session_preload_libraries", "shared_preload_libraries",
                "local_preload_libraries", "unix_socket_directories"}  # fmt: skip


def _set(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    kind = tree.kind
    if kind == pb.VAR_RESET_ALL:
        return st.Reset(name=None)
    if kind == pb.VAR_RESET:
        return st.Reset(name=tree.name.lower())
    if kind == pb.VAR_SET_MULTI:
        if tree.name == "TRANSACTION SNAPSHOT":
            snapshot = tree.args[0].a_const.sval.sval
            return st.SetTransaction(modes=st.TransactionModes(), snapshot=snapshot)
        return st.SetTransaction(modes=transaction_modes(tree.args), session=tree.name == "SESSION CHARACTERISTICS")
    if kind == pb.VAR_SET_CURRENT:
        raise FeatureNotSupported("SET ... FROM CURRENT is not supported")
    name = tree.name.lower()
    if kind == pb.VAR_SET_DEFAULT:
        return st.SetVariable(name=name, values=None, local=tree.is_local)
    return st.SetVariable(name=name, values=setting_values(name, tree.args, parsed), local=tree.is_local)


def setting_values(name: str, args: Any, parsed: Parsed) -> tuple[str, ...]:
    """The values that SET gives to the setting `name`."""
    values = []
    for arg in args:
        if arg.HasField("type_cast"):
            # SET TIME ZONE INTERVAL '...' HOUR TO MINUTE
            values.append(f"INTERVAL '{arg.type_cast.arg.a_const.sval.sval}'")
            continue
        constant = arg.a_const
        if constant.HasField("ival"):
            values.append(str(constant.ival.ival))
        elif constant.HasField("fval"):
            values.append(constant.fval.fval)
        elif constant.HasField("boolval"):
            values.append("true" if constant.boolval.boolval else "false")
        else:
            text = constant.sval.sval
            values.append(quote_identifier(text) if name in _LIST_QUOTED else text)
    return tuple(values)


def _show(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    return st.Show(name=tree.name.lower())


def _alter_system(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    inner = tree.setstmt
    if inner.kind == pb.VAR_RESET_ALL:
        return st.AlterSystem(name=None, value=None)
    name = inner.name.lower()
    if inner.kind in (pb.VAR_RESET, pb.VAR_SET_DEFAULT):
        return st.AlterSystem(name=name, value=None)
    return st.AlterSystem(name=name, value=", ".join(setting_values(name, inner.args, parsed)))


def _alter_setting(parsed: Parsed, inner: Tree, database: str | None, role: str | None) -> st.UtilityStatement:
    if inner.kind == pb.VAR_RESET_ALL:
        return st.AlterSetting(name=None, values=None, reset=True, database=database, role=role)
    name = inner.name.lower()
    if inner.kind in (pb.VAR_RESET, pb.VAR_SET_DEFAULT):
        return st.AlterSetting(name=name, values=None, reset=True, database=database, role=role)
    values = setting_values(name, inner.args, parsed)
    return st.AlterSetting(name=name, values=values, reset=False, database=database, role=role)


def _alter_database_set(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    return _alter_setting(parsed, tree.setstmt, tree.dbname, None)


def _alter_role_set(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    role = role_name(tree.role) if tree.HasField("role") else None
    return _alter_setting(parsed, tree.setstmt, tree.database or None, role)


def _discard(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    if tree.target == pb.DISCARD_ALL:
        return st.Discard(target="all")
    if tree.target == pb.DISCARD_PLANS:
        return st.Discard(target="plans")
    return st.Discard(target="sequences" if tree.target == pb.DISCARD_SEQUENCES else "temp")


BUILDERS: Mapping[str, Callable[[Parsed, Tree], st.UtilityStatement]] = {
    "variable_set_stmt": _set,
    "variable_show_stmt": _show,
    "alter_system_stmt": _alter_system,
    "alter_database_set_stmt": _alter_database_set,
    "alter_role_set_stmt": _alter_role_set,
    "discard_stmt": _discard,
}
"""By kind of parse tree: what makes its statement."""
