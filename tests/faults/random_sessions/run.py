"""One run of random sessions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.faults.audit.client import Load
from tests.faults.audit.row_loads import Counters, Duty, HotRow, Transfers
from tests.faults.audit.run import Companion, Findings, Options, Scene, audit
from tests.faults.random_sessions.companions import FOLLOWED, Disturber, Follower, Watch, look_into_logs
from tests.faults.random_sessions.definitions import Definitions
from tests.faults.random_sessions.mixed import Mixed
from tests.faults.random_sessions.past import Moments, Past
from tests.faults.random_sessions.world import Shared


def loads(seed: int, csns: int) -> list[Load]:
    """All that the clients do; what matters most, more often. `csns`: see `Past`."""
    moments = Moments(seed)
    mixed = Mixed()
    others: list[Load] = [Definitions(moments), Past(moments, csns=csns), Transfers(), Counters(), HotRow(), Duty()]
    return [Shared(), mixed, mixed, mixed, *others]


def companions(scene: Scene) -> Iterator[Companion]:
    """All who work beside them."""
    yield from (Follower(scene, number) for number in range(len(FOLLOWED)))
    yield Disturber(scene)
    yield Watch(scene)
    yield Logs(scene)


class Logs(Companion):
    """Reads what the servers have said, in the end."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene, "logs")

    def work(self) -> None:
        """See `Companion`: nothing before the end."""
        self.stopping.wait(1.0)

    def finish(self) -> None:
        """See `Companion`."""
        look_into_logs(self.scene.servers, self.scene.ledger)


def random_sessions(options: Options, folder: Path, *, csns: int = 40) -> Findings:
    """Run as `options` say; `csns`: see `Past`."""
    return audit(options, folder, loads(options.seed, csns), companions)
