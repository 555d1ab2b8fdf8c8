"""One audit: start the servers, let the clients work, kill, and look."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psycopg
from msgspec import Struct

from tests.faults.audit import mutants
from tests.faults.audit.client import Client, Connection, Load
from tests.faults.audit.key_loads import ForeignKeys, LargeTable, UniqueKeys
from tests.faults.audit.ledger import Ledger
from tests.faults.audit.row_loads import AdvisoryLocks, Beside, Counters, Duty, HotRow, Queue, Transfers
from tests.support.server import AS_SHIPPED, TidegateServer

STAND_STILL_S = 120.0
"""How long it may take until some transaction commits, a dead server's end included."""


def all_loads() -> list[Load]:
    """Every load."""
    return [
        UniqueKeys(),
        ForeignKeys(),
        LargeTable(),
        Transfers(),
        Counters(),
        HotRow(),
        Beside(),
        Queue(),
        AdvisoryLocks(),
        Duty(),
    ]


class Options(Struct, frozen=True, kw_only=True):
    """What an audit is like."""

    seed: int
    servers: int = 1
    clients: int = 32
    rounds: int = 1
    round_s: float = 5.0
    """How long the clients work before a server is killed or replaced; half of it afterwards."""
    kills: bool = True
    replaces: bool = False
    """Whether newer servers take the places of those that run, instead of kills."""
    workers: int = 1
    """Processes of each server."""
    only: tuple[str, ...] = ()
    """Names of loads; all of them when empty."""
    until_fault: bool = False
    """Whether a fault ends the audit."""
    disturbed: bool = False
    """Whether a companion cancels what clients do."""
    mistake: str = ""
    """Of `mutants`: what is wrong with the servers."""
    mutants: str = mutants.__name__
    """The module that makes the mistake."""


class Findings(Struct, frozen=True, kw_only=True):
    """What came of it."""

    faults: tuple[str, ...]
    outcomes: dict[tuple[str, str, str], int]
    kills: int
    replacements: int
    looks: int
    """How often the auditor looked while the clients worked."""
    seconds: float

    @property
    def acknowledged(self) -> int:
        """Transactions that committed, as their clients know."""
        return sum(number for (_, _, outcome), number in self.outcomes.items() if outcome == "ok")


class Scene(Struct, kw_only=True):
    """What a companion works with."""

    servers: Sequence[TidegateServer]
    clients: Sequence[Client]
    ledger: Ledger
    seed: int
    companions: list[Companion] = []


class Companion(threading.Thread):
    """Somebody who works beside the clients, step by step, until it is told to stop."""

    def __init__(self, scene: Scene, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.scene = scene
        self.stopping = threading.Event()
        self.failure: BaseException | None = None
        self.began = time.monotonic()
        """When it began with its step."""

    def run(self) -> None:
        """Runs in the thread."""
        try:
            while not self.stopping.is_set():
                self.began = time.monotonic()
                self.work()
        except BaseException as error:  # noqa: BLE001 - the audit reports it
            self.failure = error

    def work(self) -> None:
        """One step."""
        raise NotImplementedError

    def finish(self) -> None:
        """Look at what came of it, when nobody works any more."""


class Auditor(threading.Thread):
    """Runs the rules of all loads against the servers in turn, all in one snapshot, until it is told to stop."""

    def __init__(self, servers: Sequence[TidegateServer], loads: Sequence[Load], ledger: Ledger) -> None:
        super().__init__(name="auditor", daemon=True)
        self.servers, self.loads, self.ledger = servers, loads, ledger
        self.stopping = threading.Event()
        self.looks = 0

    def run(self) -> None:
        """Runs in the thread."""
        while not self.stopping.wait(0.3):
            server = self.servers[self.looks % len(self.servers)]
            try:
                with psycopg.connect(server.dsn(), autocommit=True) as connection:
                    connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
                    look(connection, self.loads, self.ledger)
                    connection.execute("COMMIT")
            except psycopg.OperationalError as error:
                if error.sqlstate is not None and not error.sqlstate.startswith("57"):
                    self.ledger.fault(f"the auditor: {error.sqlstate} {error}")
            except psycopg.Error as error:
                self.ledger.fault(f"the auditor: {error.sqlstate} {error}")
            self.looks += 1


def look(connection: Connection, loads: Sequence[Load], ledger: Ledger) -> None:
    """A fault for each rule that is broken."""
    for load in loads:
        for rule in load.rules:
            broken = connection.execute(rule.encode()).fetchall()
            if broken:
                ledger.fault(f"{load.name}: {broken[:3]} of {rule}")


@contextmanager
def started(options: Options, folder: Path) -> Iterator[list[TidegateServer]]:
    """The servers, on one environment in `folder`."""
    folder.mkdir(exist_ok=True)
    arguments: tuple[str, ...] = ("--spark-start", "lazy", "--set", "engine=local")
    if options.workers > 1:
        arguments += ("--workers", str(options.workers))
    with ExitStack() as stack:
        servers = []
        for number in range(options.servers):
            server = TidegateServer(
                folder / "data",
                arguments=arguments,
                environment={mutants.VARIABLE: options.mistake} if options.mistake else AS_SHIPPED,
                module=options.mutants if options.mistake else None,
            )
            server.log = folder / f"server{number}.log"
            stack.callback(server.kill)
            server.start()
            servers.append(server)
        yield servers


def audit(
    options: Options,
    folder: Path,
    among: Sequence[Load] | None = None,
    companions: Callable[[Scene], Iterable[Companion]] = lambda scene: (),
) -> Findings:
    """Run one audit, of the loads `among` which are chosen, all by default, with `companions` at work. Raises
    AssertionError when the load stands still."""
    began = time.monotonic()
    chance = random.Random(options.seed)
    loads = [load for load in among or all_loads() if not options.only or load.name in options.only]
    ledger = Ledger()
    kills = replacements = 0
    with started(options, folder) as servers:
        with psycopg.connect(servers[0].dsn(), autocommit=True) as connection:
            for load in loads:
                for text in load.tables:
                    connection.execute(text.encode())
        clients = [
            Client(
                number,
                servers[number % len(servers)],
                loads,
                ledger,
                options.seed * 1000 + number,
                servers=len(servers),
                disturbed=options.disturbed,
                replaced=options.replaces,
            )
            for number in range(options.clients)
        ]
        auditor = Auditor(servers, loads, ledger)
        scene = Scene(servers=servers, clients=clients, ledger=ledger, seed=options.seed)
        scene.companions.extend(companions(scene))
        for thread in (*clients, auditor, *scene.companions):
            thread.start()
        for _ in range(options.rounds):
            _work(ledger, clients, options.round_s, options.until_fault)
            if options.replaces:
                for server in chance.sample(servers, len(servers)):
                    if server.replace() != 0:
                        ledger.fault(f"a server that was replaced: {server.output()[-500:]}")
                    replacements += 1
                _work(ledger, clients, options.round_s / 2, options.until_fault)
            elif options.kills:
                kills += _kill(servers, options, chance)
                _work(ledger, clients, options.round_s / 2, options.until_fault)
        working: list[Client | Companion] = [*clients, *scene.companions]
        for each in (*working, auditor):
            each.stopping.set()
        for each in (*working, auditor):
            each.join(timeout=STAND_STILL_S)
            if each.is_alive():
                ledger.fault(f"{each.name} does not come to an end")
        for worker in working:
            if worker.failure is not None:
                ledger.fault(f"{worker.name}: {worker.failure!r}")
        for server in servers:
            _look_at_the_end(server, loads, ledger)
        for companion in scene.companions:
            try:
                companion.finish()
            except psycopg.Error as error:
                ledger.fault(f"{companion.name}: {error.sqlstate} {error}")
        ledger.check_results()
    return Findings(
        faults=tuple(ledger.faults),
        outcomes=dict(ledger.outcomes),
        kills=kills,
        replacements=replacements,
        looks=auditor.looks,
        seconds=time.monotonic() - began,
    )


def _kill(servers: Sequence[TidegateServer], options: Options, chance: random.Random) -> int:
    """Kill one server or all of them, and start them again; or one worker of one. Returns how many were killed."""
    if options.workers > 1 and chance.random() < 0.5:
        os.kill(chance.choice(chance.choice(servers).workers()), signal.SIGKILL)
        return 1
    victims = servers if chance.random() < 0.3 else [chance.choice(servers)]
    for server in victims:
        server.kill()
    for server in victims:
        server.start()
    return len(victims)


def _look_at_the_end(server: TidegateServer, loads: Sequence[Load], ledger: Ledger) -> None:
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        look(connection, loads, ledger)
        for load in loads:
            try:
                load.audit(connection, ledger)
            except psycopg.Error as error:
                ledger.fault(f"{load.name}: {error.sqlstate} {error}")


def _work(ledger: Ledger, clients: Sequence[Client], seconds: float, until_fault: bool) -> None:
    """Let the clients work for so long, and until something has been committed in that time."""
    before, began = ledger.acknowledged, time.monotonic()
    while True:
        time.sleep(0.1)
        went = time.monotonic() - began
        committed = ledger.acknowledged - before
        if (went >= seconds and committed) or (until_fault and ledger.faults):
            return
        assert went < STAND_STILL_S, "the load stands still"
        if all(client.failure is not None for client in clients):
            return
