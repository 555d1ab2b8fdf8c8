"""SET ROLE and SET SESSION AUTHORIZATION: who a session acts as, and what undoes it."""

from __future__ import annotations

from tests.adapter.harness import Client


async def _who(client: Client) -> tuple[object, ...]:
    text = "select current_user, session_user, current_setting('role'), current_setting('is_superuser')"
    ((*row,),) = await client.rows(text)
    return tuple(row)


async def test_set_role_and_back(client: Client) -> None:
    await client.run("create role ann")
    await client.run("set role ann")
    assert await _who(client) == ("ann", "postgres", "ann", "off")
    await client.run("reset role")
    assert await _who(client) == ("postgres", "postgres", "none", "on")


async def test_a_local_role_ends_with_its_transaction(client: Client) -> None:
    await client.run("create role ann")
    for end in ("commit", "rollback"):
        await client.run("begin; set local role ann")
        assert (await _who(client))[0] == "ann"
        await client.run(end)
        assert await _who(client) == ("postgres", "postgres", "none", "on")


async def test_rolling_back_undoes_both(client: Client) -> None:
    await client.run("create role ann; create role ben")
    await client.run("set role ben")
    await client.run("begin; savepoint s; set session authorization ann")
    assert await _who(client) == ("ann", "ann", "none", "off")
    await client.run("rollback to s")
    assert await _who(client) == ("ben", "postgres", "ben", "off")
    await client.run("set role ann; rollback")
    assert await _who(client) == ("ben", "postgres", "ben", "off")


async def test_session_authorization_asks_who_logged_in(client: Client) -> None:
    await client.run("create role ann; create role ben")
    await client.run("set session authorization ann")
    error = await client.error("set role ben")
    assert (error.sqlstate, error.message) == ("42501", 'permission denied to set role "ben"')
    await client.run("set session authorization ben")
    assert await _who(client) == ("ben", "ben", "none", "off")
    await client.run("reset session authorization")
    assert await _who(client) == ("postgres", "postgres", "none", "on")
    error = await client.error("set role nobody")
    assert (error.sqlstate, error.message) == ("22023", 'role "nobody" does not exist')


async def test_a_renamed_role_keeps_its_sessions(client: Client) -> None:
    await client.run("create role ann; set role ann; reset role")
    await client.run("begin; set local role ann; reset role; alter role ann rename to anna; set local role anna")
    assert (await _who(client))[0] == "anna"
    await client.run("commit")
    await client.run("discard all")
    assert await _who(client) == ("postgres", "postgres", "none", "on")
