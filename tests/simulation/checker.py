"""Finds isolation anomalies in a history of transactions (after Adya's and Crooks' definitions, as Elle does).

A history is what clients saw: for each transaction its operations, when it began and ended, and whether it
committed (``ok``), certainly did not (``fail``), or nobody knows (``info``). Two kinds of keys:

- *list-append*: a write appends a value that is unique for its key; a read returns the whole list. The longest
  list read gives the order of the versions.
- *register*: a write sets a unique value; a read returns one value or None. The order of versions is known as far
  as transactions read before they wrote, and, with `linearizable_registers`, from writes that did not overlap.

Dependencies between committed transactions:

    ww  T2 wrote the version after T1's        wr  T2 read T1's version
    rw  T1 read a version that T2 replaced     rt  T1 ended before T2 began

Anomalies: a cycle of these is G0 (ww only), G1c (ww and wr), G-single (exactly one rw), G-nonadjacent (several
rw, no two in a row), or G2 (otherwise); with ``-realtime`` when it needs an rt edge. Without a cycle: G1a (a read
of what an aborted transaction wrote), G1b (a read of an intermediate value), lost update (two transactions read
one version and both replaced it), and reads that no order of versions explains.

An ``info`` transaction counts as committed once somebody has read what it wrote; it never ended, so nothing comes
after it in real time.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, TypeAlias

Key: TypeAlias = str | int
Value: TypeAlias = str | int
Status: TypeAlias = Literal["ok", "fail", "info"]
Kind: TypeAlias = Literal["ww", "wr", "rw", "rt"]


@dataclass(frozen=True, slots=True)
class Append:
    """The transaction appended `value` to the list `key`."""

    key: Key
    value: Value


@dataclass(frozen=True, slots=True)
class ReadList:
    """The transaction read the list `key`."""

    key: Key
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Write:
    """The transaction set the register `key`."""

    key: Key
    value: Value


@dataclass(frozen=True, slots=True)
class ReadRegister:
    """The transaction read the register `key`; None is its initial value."""

    key: Key
    value: Value | None


Operation: TypeAlias = Append | ReadList | Write | ReadRegister


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """One transaction as its client saw it. Times need only be comparable; `ended` is None for ``info``."""

    id: int
    operations: tuple[Operation, ...]
    status: Status = "ok"
    began: float = 0.0
    ended: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Anomaly:
    """What is wrong: the anomaly's name, the transactions of the cycle (or those involved), and why."""

    name: str
    transactions: tuple[int, ...]
    detail: str

    def __str__(self) -> str:
        return f"{self.name}: {self.detail}"


_CYCLES = ("G0", "G1c", "G-single", "G-nonadjacent", "G2")
"""From the narrowest kind of cycle to the widest."""


@dataclass(slots=True)
class _Graph:
    """Dependencies between transactions: for each edge its kinds and an explanation of each."""

    edges: dict[int, dict[int, dict[Kind, str]]] = field(default_factory=lambda: defaultdict(dict))

    def add(self, before: int, after: int, kind: Kind, why: str) -> None:
        if before != after:
            self.edges[before].setdefault(after, {}).setdefault(kind, why)

    def successors(self, node: int, kinds: frozenset[Kind]) -> Iterator[int]:
        for after, found in self.edges.get(node, {}).items():
            if not kinds.isdisjoint(found):
                yield after


def check(history: Sequence[Transaction], *, linearizable_registers: bool = False) -> list[Anomaly]:
    """Every anomaly found in `history`; of each kind of cycle the shortest one per component."""
    return _Checker(history, linearizable_registers).run()


class _Checker:
    def __init__(self, history: Sequence[Transaction], linearizable_registers: bool) -> None:
        self.linearizable_registers = linearizable_registers
        self.by_id = {transaction.id: transaction for transaction in history}
        if len(self.by_id) != len(history):
            raise ValueError("transaction ids are not unique")
        self.writer: dict[tuple[Key, Value], int] = {}
        self.anomalies: list[Anomaly] = []
        self.graph = _Graph()
        self._explained_nodes: set[int] = set()
        for transaction in history:
            for operation in transaction.operations:
                if isinstance(operation, Append | Write):
                    slot = (operation.key, operation.value)
                    if slot in self.writer:
                        raise ValueError(f"value {operation.value!r} is written to {operation.key!r} twice")
                    self.writer[slot] = transaction.id
        self.committed = self._committed()

    def _committed(self) -> dict[int, Transaction]:
        """The transactions that took effect: those that say so, and those in doubt whose writes were read."""
        seen = {
            self.writer[(operation.key, value)]
            for transaction in self.by_id.values()
            if transaction.status == "ok"
            for operation in transaction.operations
            for value in _values_read(operation)
            if (operation.key, value) in self.writer
        }
        return {
            id: transaction
            for id, transaction in self.by_id.items()
            if transaction.status == "ok" or (transaction.status == "info" and id in seen)
        }

    def run(self) -> list[Anomaly]:
        for transaction in self.committed.values():
            if transaction.status == "ok":
                self._check_reads(transaction)
                self._check_own_reads(transaction)
        self._order_lists()
        self._order_registers()
        self._find_lost_updates()
        self._order_in_real_time()
        self._find_cycles()
        return self.anomalies

    def _report(self, name: str, transactions: Iterable[int], detail: str) -> None:
        self.anomalies.append(Anomaly(name=name, transactions=tuple(transactions), detail=detail))

    # Reads that are wrong by themselves

    def _check_reads(self, reader: Transaction) -> None:
        for operation in reader.operations:
            values = _values_read(operation)
            if len(set(values)) != len(values):
                self._report(
                    "duplicate",
                    [reader.id],
                    f"T{reader.id} read a value of {operation.key!r} twice: {values}",
                )
            for value in values:
                writer = self.writer.get((operation.key, value))
                if writer is None:
                    self._report(
                        "phantom",
                        [reader.id],
                        f"T{reader.id} read {value!r} of {operation.key!r}, which nobody wrote",
                    )
                elif self.by_id[writer].status == "fail":
                    self._report(
                        "G1a",
                        [reader.id, writer],
                        f"T{reader.id} read {value!r} of {operation.key!r}, which the aborted T{writer} wrote",
                    )
            if not values:
                continue
            last = self.writer.get((operation.key, values[-1]))
            if last is not None and last != reader.id:
                written = [
                    other.value
                    for other in self.by_id[last].operations
                    if isinstance(other, Append | Write) and other.key == operation.key
                ]
                if written[-1] != values[-1]:
                    self._report(
                        "G1b",
                        [reader.id, last],
                        f"T{reader.id} read {values[-1]!r} of {operation.key!r}, an intermediate value of T{last}",
                    )

    def _check_own_reads(self, transaction: Transaction) -> None:
        """A transaction sees its own writes, and the same snapshot otherwise."""
        lists: dict[Key, tuple[Value, ...]] = {}
        appended: dict[Key, list[Value]] = defaultdict(list)
        registers: dict[Key, Value | None] = {}
        for operation in transaction.operations:
            match operation:
                case Append(key, value):
                    appended[key].append(value)
                    if key in lists:
                        lists[key] = (*lists[key], value)
                case ReadList(key, values):
                    own = tuple(appended[key])
                    expected = lists.get(key)
                    if (expected is not None and expected != values) or (own and values[-len(own) :] != own):
                        self._report(
                            "internal",
                            [transaction.id],
                            f"T{transaction.id} read {values} of {key!r} after {expected} and its own {own}",
                        )
                    lists[key] = values
                case Write(key, value):
                    registers[key] = value
                case ReadRegister(key, register):
                    if key in registers and registers[key] != register:
                        self._report(
                            "internal",
                            [transaction.id],
                            f"T{transaction.id} read {register!r} of {key!r} after {registers[key]!r}",
                        )
                    registers[key] = register

    # Orders of versions

    def _order_lists(self) -> None:
        longest: dict[Key, tuple[Value, ...]] = {}
        reads: list[tuple[int, Key, tuple[Value, ...]]] = []
        for transaction in self.committed.values():
            if transaction.status != "ok":
                continue
            own: set[tuple[Key, Value]] = set()
            for operation in transaction.operations:
                if isinstance(operation, Append):
                    own.add((operation.key, operation.value))
                elif isinstance(operation, ReadList):
                    foreign = tuple(value for value in operation.values if (operation.key, value) not in own)
                    reads.append((transaction.id, operation.key, foreign))
                    best = longest.get(operation.key, ())
                    short, long = sorted((best, operation.values), key=len)
                    if long[: len(short)] != short:
                        self._report(
                            "incompatible-order",
                            [transaction.id],
                            f"T{transaction.id} read {operation.values} of {operation.key!r}, but another read {best}",
                        )
                    longest[operation.key] = long
        appends: dict[Key, list[tuple[int, Value]]] = defaultdict(list)
        for transaction in self.committed.values():
            for operation in transaction.operations:
                if isinstance(operation, Append):
                    appends[operation.key].append((transaction.id, operation.value))
        for key, values in longest.items():
            writers = [self._committed_writer(key, value) for value in values]
            for (first, v1), (second, v2) in pairwise(zip(writers, values, strict=True)):
                if first is not None and second is not None:
                    self.graph.add(first, second, "ww", f"T{second} appended {v2!r} to {key!r} after T{first}'s {v1!r}")
        for reader, key, values in reads:
            order = longest[key]
            if values:
                writer = self._committed_writer(key, values[-1])
                if writer is not None:
                    self.graph.add(writer, reader, "wr", f"T{reader} read T{writer}'s {values[-1]!r} of {key!r}")
            if len(values) < len(order):
                following = self._committed_writer(key, order[len(values)])
                if following is not None:
                    self.graph.add(
                        reader,
                        following,
                        "rw",
                        f"T{reader} read {key!r} without T{following}'s {order[len(values)]!r}",
                    )
            else:
                # What was appended and never read comes after everything that was.
                for writer, value in appends[key]:
                    if value not in order:
                        self.graph.add(reader, writer, "rw", f"T{reader} read {key!r} without T{writer}'s {value!r}")

    def _order_registers(self) -> None:
        """Edges from the versions whose order is known: v before w when a transaction read v and wrote w."""
        replaced: dict[tuple[Key, Value | None], set[Value]] = defaultdict(set)
        reads: list[tuple[int, Key, Value | None]] = []
        final: dict[Key, list[tuple[int, Value]]] = defaultdict(list)
        for transaction in self.committed.values():
            current: dict[Key, Value | None] = {}
            last: dict[Key, Value] = {}
            for operation in transaction.operations:
                if isinstance(operation, ReadRegister):
                    if operation.key not in last:
                        if transaction.status == "ok":
                            reads.append((transaction.id, operation.key, operation.value))
                        current[operation.key] = operation.value
                elif isinstance(operation, Write):
                    last[operation.key] = operation.value
            for key, newest in last.items():
                final[key].append((transaction.id, newest))
                if key in current:
                    replaced[(key, current[key])].add(newest)
        for key, writes in final.items():
            for _, written in writes:
                replaced[(key, None)].add(written)
            if self.linearizable_registers:
                for earlier, v1 in writes:
                    ended = self.by_id[earlier].ended
                    for later, v2 in writes:
                        if ended is not None and ended < self.by_id[later].began:
                            replaced[(key, v1)].add(v2)
        for (key, before), afters in replaced.items():
            if before is None:
                continue
            first = self._committed_writer(key, before)
            for after in afters:
                second = self._committed_writer(key, after)
                if first is not None and second is not None:
                    self.graph.add(
                        first, second, "ww", f"T{second} set {key!r} to {after!r} after T{first}'s {before!r}"
                    )
        for reader, key, value in reads:
            if value is not None:
                writer = self._committed_writer(key, value)
                if writer is not None:
                    self.graph.add(writer, reader, "wr", f"T{reader} read T{writer}'s {value!r} of {key!r}")
            for next_value in replaced[(key, value)]:
                following = self._committed_writer(key, next_value)
                if following is not None:
                    self.graph.add(
                        reader,
                        following,
                        "rw",
                        f"T{reader} read {value!r} of {key!r}, which T{following} replaced with {next_value!r}",
                    )

    def _committed_writer(self, key: Key, value: Value) -> int | None:
        writer = self.writer.get((key, value))
        return writer if writer in self.committed else None

    def _find_lost_updates(self) -> None:
        """Two committed transactions that read one version of a key and both replaced it."""
        replacers: dict[tuple[Key, object], list[int]] = defaultdict(list)
        for transaction in self.committed.values():
            read: dict[Key, object] = {}
            written: set[Key] = set()
            for operation in transaction.operations:
                match operation:
                    case ReadList(key, values):
                        if key not in written:
                            read.setdefault(key, values)
                    case ReadRegister(key, value):
                        if key not in written:
                            read.setdefault(key, value)
                    case Append(key, _) | Write(key, _):
                        written.add(key)
            for key in written & read.keys():
                replacers[(key, read[key])].append(transaction.id)
        for (key, version), ids in replacers.items():
            if len(ids) > 1:
                names = ", ".join(f"T{id}" for id in ids)
                self._report("lost-update", ids, f"{names} all read {version!r} of {key!r} and replaced it")

    def _order_in_real_time(self) -> None:
        """rt edges, reduced: only to a transaction that began after all between had ended."""
        moments: list[tuple[float, int, int]] = []
        for transaction in self.committed.values():
            moments.append((transaction.began, 1, transaction.id))
            if transaction.status == "ok" and transaction.ended is not None:
                moments.append((transaction.ended, 0, transaction.id))
        frontier: set[int] = set()
        before: dict[int, frozenset[int]] = {}
        # An end and a beginning at one moment overlap: beginnings come first.
        for _, begins, id in sorted(moments, key=lambda moment: (moment[0], -moment[1], moment[2])):
            if begins:
                before[id] = frozenset(frontier)
                for earlier in frontier:
                    self.graph.add(earlier, id, "rt", f"T{id} began after T{earlier} had ended")
            else:
                frontier -= before[id]
                frontier.add(id)

    # Cycles

    def _find_cycles(self) -> None:
        for component in self._components(frozenset({"ww", "wr", "rw", "rt"})):
            for suffix in ("", "-realtime"):
                names = [name for name in _CYCLES if self._find_cycle(name, suffix, component)]
                # The same without real time, or a narrower one, explains this component already.
                if names:
                    break

    def _find_cycle(self, name: str, suffix: str, component: frozenset[int]) -> bool:
        kinds: set[Kind] = {"ww"}
        if suffix:
            kinds.add("rt")
        if name != "G0":
            kinds.add("wr")
        match name:
            case "G0":
                cycle = self._shortest_cycle(component, frozenset(kinds), "ww")
            case "G1c":
                cycle = self._shortest_cycle(component, frozenset(kinds), "wr")
            case "G-single":
                cycle = self._shortest_cycle(component, frozenset(kinds), "rw")
            case "G-nonadjacent":
                cycle = self._nonadjacent_cycle(component, frozenset(kinds))
            case _:
                cycle = self._shortest_cycle(component, frozenset(kinds | {"rw"}), "rw")
        if cycle is None or (name in ("G-nonadjacent", "G2") and self._explained(cycle)):
            return False
        self._report_cycle(name + suffix, cycle)
        self._explained_nodes.update(node for node, _ in cycle)
        return True

    def _explained(self, cycle: list[tuple[int, Kind]]) -> bool:
        """Whether a narrower anomaly of the same transactions has been reported."""
        return self._explained_nodes.issuperset(node for node, _ in cycle)

    def _report_cycle(self, name: str, cycle: list[tuple[int, Kind]]) -> None:
        steps = []
        for at, (node, kind) in enumerate(cycle):
            after = cycle[(at + 1) % len(cycle)][0]
            steps.append(f"{kind}: {self.graph.edges[node][after][kind]}")
        self._report(name, [node for node, _ in cycle], "; ".join(steps))

    def _shortest_cycle(
        self, component: frozenset[int], kinds: frozenset[Kind], first: Kind
    ) -> list[tuple[int, Kind]] | None:
        """A shortest cycle of an edge of kind `first` and then edges of `kinds`: (node, edge to the next)."""
        best: list[tuple[int, Kind]] | None = None
        for node in sorted(component):
            for after, found in self.graph.edges.get(node, {}).items():
                if first not in found or after not in component:
                    continue
                path = self._path(after, node, kinds, component)
                if path is not None and (best is None or len(path) + 1 < len(best)):
                    best = [(node, first), *path]
        return best

    def _path(
        self, start: int, goal: int, kinds: frozenset[Kind], inside: frozenset[int]
    ) -> list[tuple[int, Kind]] | None:
        """The shortest path from `start` to `goal`, without `goal`."""
        came_from: dict[int, int] = {start: start}
        queue = deque([start])
        while queue:
            node = queue.popleft()
            if node == goal:
                path: list[int] = []
                while node != start:
                    node = came_from[node]
                    path.append(node)
                nodes = [*reversed(path), goal]
                return [(a, self._kind(a, b, kinds)) for a, b in pairwise(nodes)]
            for after in self.graph.successors(node, kinds):
                if after in inside and after not in came_from:
                    came_from[after] = node
                    queue.append(after)
        return None

    def _kind(self, before: int, after: int, kinds: frozenset[Kind]) -> Kind:
        found = self.graph.edges[before][after]
        order: tuple[Kind, ...] = ("ww", "wr", "rt", "rw")
        return next(kind for kind in order if kind in found and kind in kinds)

    def _nonadjacent_cycle(self, component: frozenset[int], kinds: frozenset[Kind]) -> list[tuple[int, Kind]] | None:
        """A cycle with at least two rw edges of which no two are adjacent."""
        for start in sorted(component):
            # States: (node, whether the last edge was rw, how many rw edges so far, at most 2).
            first = [after for after in self.graph.successors(start, frozenset({"rw"})) if after in component]
            for after in first:
                begin = (after, True, 1)
                came_from: dict[tuple[int, bool, int], tuple[tuple[int, bool, int], Kind] | None] = {begin: None}
                queue = deque([begin])
                while queue:
                    state = queue.popleft()
                    node, last_rw, count = state
                    # Closing at `start`, whose first edge is rw: the last edge must not be.
                    if node == start and not last_rw and count >= 2:
                        path: list[tuple[int, Kind]] = []
                        at = state
                        while (step := came_from[at]) is not None:
                            at, kind = step
                            path.append((at[0], kind))
                        cycle = [(start, "rw"), *reversed(path)]
                        if len({node for node, _ in cycle}) == len(cycle):
                            return cycle
                        continue
                    for target, found in self.graph.edges.get(node, {}).items():
                        if target not in component:
                            continue
                        usable = [kind for kind in found if kind in kinds]
                        if usable:
                            self._visit(came_from, queue, state, (target, False, count), usable[0])
                        if "rw" in found and not last_rw:
                            self._visit(came_from, queue, state, (target, True, min(2, count + 1)), "rw")
        return None

    @staticmethod
    def _visit(
        came_from: dict[tuple[int, bool, int], tuple[tuple[int, bool, int], Kind] | None],
        queue: deque[tuple[int, bool, int]],
        state: tuple[int, bool, int],
        target: tuple[int, bool, int],
        kind: Kind,
    ) -> None:
        if target not in came_from:
            came_from[target] = (state, kind)
            queue.append(target)

    def _components(self, kinds: frozenset[Kind]) -> list[frozenset[int]]:
        """Strongly connected components of more than one transaction (Tarjan, without recursion)."""
        index: dict[int, int] = {}
        low: dict[int, int] = {}
        stack: list[int] = []
        on_stack: set[int] = set()
        found: list[frozenset[int]] = []
        for root in self.committed:
            if root in index:
                continue
            work: list[tuple[int, Iterator[int]]] = []

            def enter(node: int, work: list[tuple[int, Iterator[int]]] = work) -> None:
                index[node] = low[node] = len(index)
                stack.append(node)
                on_stack.add(node)
                work.append((node, self.graph.successors(node, kinds)))

            enter(root)
            while work:
                node, successors = work[-1]
                for after in successors:
                    if after not in index:
                        enter(after)
                        break
                    if after in on_stack:
                        low[node] = min(low[node], index[after])
                else:
                    work.pop()
                    if work:
                        low[work[-1][0]] = min(low[work[-1][0]], low[node])
                    if low[node] == index[node]:
                        component = set()
                        while True:
                            member = stack.pop()
                            on_stack.discard(member)
                            component.add(member)
                            if member == node:
                                break
                        if len(component) > 1:
                            found.append(frozenset(component))
        return found


def _values_read(operation: Operation) -> tuple[Value, ...]:
    match operation:
        case ReadList(_, values):
            return values
        case ReadRegister(_, value) if value is not None:
            return (value,)
        case _:
            return ()
