"""SET, RESET, SHOW and DISCARD."""

from __future__ import annotations

from adapter.execution.guards import prevent_in_block
from adapter.execution.session_settings import TEXT, apply_setting, current_value, reset_setting, show_value
from adapter.execution.statement import Outcome, Running, rows_outcome
from adapter.results import ColumnDescription, Command
from adapter.settings.catalogue import SETTINGS
from adapter.settings.values import check_changeable
from planner.errors import CantChangeRuntimeParam
from planner.statements import records as st


def set_setting(running: Running, statement: st.SetVariable) -> Command:
    """SET, SET LOCAL and SET ... TO DEFAULT."""
    session = running.session
    if statement.local and not running.in_block:
        session.warn("25P01", "SET LOCAL can only be used in transaction blocks")
    apply_setting(running, statement.name, statement.value, local=statement.local, items=statement.values)
    return Command(tag="SET")


def reset(running: Running, statement: st.Reset) -> Command:
    """RESET name and RESET ALL."""
    session = running.session
    if statement.name is None:
        session.values = session.values.reset_all()
    else:
        setting, session.values = session.values.find_or_add(statement.name)
        check_changeable(setting)
        if setting.name.startswith("transaction_"):
            raise CantChangeRuntimeParam(f'parameter "{setting.name}" cannot be reset')
        reset_setting(running, setting, local=False)
    return Command(tag="RESET")


def show(running: Running, statement: st.Show) -> Outcome:
    """SHOW name and SHOW ALL."""
    session = running.session
    if statement.name == "all":
        rows = [
            (setting.name, current_value(session, setting), setting.description)
            for setting in sorted(SETTINGS, key=lambda s: s.name.lower())
            if not setting.hidden
        ]
        columns = tuple(ColumnDescription(name=name, type=TEXT) for name in ("name", "setting", "description"))
        return rows_outcome(columns, rows, "SHOW")
    name, value = show_value(session, statement.name)
    return rows_outcome((ColumnDescription(name=name, type=TEXT),), [(value,)], "SHOW")


async def discard(running: Running, statement: st.Discard) -> Command:
    """DISCARD ALL, PLANS, SEQUENCES, TEMP."""
    session = running.session
    match statement.target:
        case "all":
            prevent_in_block(running, "DISCARD ALL")
            await session.portals.drop_all(keep_held=False)
            reset_setting(running, session.values.find("session_authorization"), local=False)
            session.values = session.values.reset_all()
            session.statements.forget_all()
            session.listener.channels.clear()
            session.locks.unlock_all()
            session.sequence_values.clear()
            running.transaction.settings_at_start = session.values
            running.transaction.discard_temporary()
        case "sequences":
            session.sequence_values.clear()
            session.last_sequence = None
        case "temp":
            running.transaction.discard_temporary()
        case _:
            pass
    return Command(tag=f"DISCARD {statement.target.upper()}")
