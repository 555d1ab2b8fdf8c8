"""Questions of one worker to another."""

from __future__ import annotations

import asyncio
from pathlib import Path

import uvloop

from adapter.workers.mesh import Mesh
from adapter.workers.messages import SessionRows


async def _asked_as_it_ends(folder: Path) -> list[object]:
    asking, other = Mesh(folder, 0, 2), Mesh(folder, 1, 2)
    await other.open()
    other.answer(SessionRows, lambda question: ["here"])
    answers = [await asking.ask(1, SessionRows("sessions"))]
    link = await asking._link(1)
    # The other one has ended, and nobody has read so yet.
    link._writer.transport.abort()
    await asyncio.sleep(0)
    answers.append(await asking.ask(1, SessionRows("sessions")))
    await asking.close()
    await other.close()
    return answers


def test_a_worker_that_ends_while_it_is_asked_is_not_there(tmp_path: Path) -> None:
    # On the loop that servers have, whose complaints are its own.
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(_asked_as_it_ends(tmp_path)) == [["here"], None]
