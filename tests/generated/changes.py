"""Random changes of rows: INSERT, UPDATE, DELETE and MERGE with random expressions and queries, through views too."""

from __future__ import annotations

from tests.generated.expressions import Item
from tests.generated.queries import Queries, Query, columns, listed, renamed
from tests.generated.tables import TARGET
from tests.generated.trials import Trial

VIEWED = {"k": "id", "i": "i", "words": "t", "num": "num", "dt": "dt", "ia": "ia", "mo": "mo", "pa": "pa"}
"""The columns of the views over the target, and what they are of it."""
AFTERWARDS = "select * from target"


class Changes(Queries):
    """Trials of changes, each in a transaction that is rolled back; the same for the same seed."""

    def trial(self) -> Trial:
        """The next one: some changes, and what they leave."""
        changes = [self._change() for _ in range(self.random.randint(1, 3))]
        return Trial(("begin",), (*changes, AFTERWARDS), len(changes), frozenset({AFTERWARDS}))

    def _change(self) -> str:
        random = self.random
        kinds = (
            self._values,
            self._insert_query,
            self._update,
            self._update,
            self._delete,
            self._merge,
            self._with_change,
        )
        return random.choice(kinds)()

    # What is changed

    def _target(self) -> tuple[str, str, dict[str, str]]:
        """A table or a view, its alias, and the kinds of its columns."""
        alias = self._name("t")
        if self.random.random() < 0.7:
            return "target", alias, dict(TARGET)
        view = self.random.choice(["target_view", "target_view", "checked_view"])
        return view, alias, {name: TARGET[base] for name, base in VIEWED.items()}

    def _settable(self, kinds: dict[str, str]) -> list[str]:
        some = [name for name in kinds if name not in ("id", "k", "g")]
        return self.random.sample(some, self.random.randint(1, min(4, len(some))))

    def _returning(self, items: tuple[Item, ...]) -> str:
        random = self.random
        if random.random() < 0.3:
            return ""
        if random.random() < 0.2:
            return " returning *"
        make = self.expressions(items)
        targets = self._targets(lambda kind: make.of(kind, 1), 3)
        if random.random() < 0.15:
            targets.append(("(select count(*) from target)", "n", "bigint"))
        return f" returning {listed(targets)}"

    # What the changes are made from

    def _unique(self, alias: str, kinds: tuple[str, ...]) -> tuple[str, tuple[Item, ...]]:
        """A relation whose first column is an integer that no two rows share and is never NULL."""
        source = self.source(1, ())
        make = self.expressions(source.items)
        key = f"coalesce(abs({make.of('int', 1)}) % 12, 11)"
        listing = ", ".join(f"{make.of(kind, 1)} as c{number}" for number, kind in enumerate(kinds, 1))
        where = self._where(source.items, 1)
        order = ", ".join(str(number) for number in range(1, len(kinds) + 2))
        inner = f"select {key} as c0, {listing} from {source.text}{where}"
        items = (Item(f"{alias}.c0", "int"), *(Item(f"{alias}.c{n}", kind) for n, kind in enumerate(kinds, 1)))
        return f"(select distinct on (1) * from ({inner}) {self._name('b')} order by {order}) {alias}", items

    def _joined(self, alias: str) -> tuple[str, tuple[Item, ...]]:
        make = self.expressions(())
        return self._unique(alias, tuple(make.any_kind() for _ in range(self.random.randint(1, 3))))

    # The changes

    def _values(self) -> str:
        random = self.random
        table, alias, kinds = self._target()
        names = self._settable(kinds)
        make = self.expressions(())
        key = "id" if "id" in kinds else "k"
        rows = []
        for id in random.sample(range(1, 30), random.randint(1, 3)):
            values = ["default" if random.random() < 0.1 else make.of(kinds[name], 2) for name in names]
            rows.append(f"({', '.join([str(id), *values])})")
        text = f"insert into {table} as {alias} ({', '.join([key, *names])}) values {', '.join(rows)}"
        return text + self._conflict(key, alias, kinds, names)

    def _insert_query(self) -> str:
        table, alias, kinds = self._target()
        names = self._settable(kinds)
        name = self._name("q")
        key = "id" if "id" in kinds else "k"
        source, items = self._unique(name, tuple(kinds[name] for name in names))
        text = f"insert into {table} as {alias} ({', '.join([key, *names])}) "
        text += f"select {', '.join(item.text for item in items)} from {source}"
        return text + self._conflict(key, alias, kinds, names)

    def _conflict(self, key: str, alias: str, kinds: dict[str, str], names: list[str]) -> str:
        random = self.random
        items = tuple(Item(f"{alias}.{name}", kind) for name, kind in kinds.items())
        drawn = random.random()
        if drawn < 0.3:
            return self._returning(items)
        if drawn < 0.5:
            target = random.choice([f" ({key})", ""])
            return f" on conflict{target} do nothing{self._returning(items)}"
        both = items + tuple(Item(f"excluded.{name}", kind) for name, kind in kinds.items())
        sets = self._sets(kinds, both)
        where = f" where {self.condition(both, 1)}" if random.random() < 0.4 else ""
        return f" on conflict ({key}) do update set {sets}{where}{self._returning(items)}"

    def _sets(self, kinds: dict[str, str], items: tuple[Item, ...]) -> str:
        random = self.random
        make = self.expressions(items)
        names = self._settable(kinds)
        values = [make.of(kinds[name], 2) for name in names]
        if len(names) > 1 and random.random() < 0.25:
            if random.random() < 0.5:
                return f"({', '.join(names)}) = ({', '.join(values)})"
            return f"({', '.join(names)}) = (select {', '.join(values)})"
        return ", ".join(
            f"{name} = {'default' if random.random() < 0.06 else value}"
            for name, value in zip(names, values, strict=True)
        )

    def _update(self) -> str:
        random = self.random
        table, alias, kinds = self._target()
        key = "id" if "id" in kinds else "k"
        items = tuple(Item(f"{alias}.{name}", kind) for name, kind in kinds.items())
        if random.random() < 0.5:
            where = f" where {self.condition(items, 2)}" if random.random() < 0.7 else ""
            return f"update {table} {alias} set {self._sets(kinds, items)}{where}{self._returning(items)}"
        name = self._name("q")
        source, more = self._joined(name)
        both = items + more
        where = f"{alias}.{key} = {name}.c0"
        if random.random() < 0.5:
            where += f" and {self.condition(both, 1)}"
        return (
            f"update {table} {alias} set {self._sets(kinds, both)} from {source} where {where}{self._returning(both)}"
        )

    def _delete(self) -> str:
        random = self.random
        table, alias, kinds = self._target()
        key = "id" if "id" in kinds else "k"
        items = tuple(Item(f"{alias}.{name}", kind) for name, kind in kinds.items())
        if random.random() < 0.5:
            where = f" where {self.condition(items, 2)}" if random.random() < 0.8 else ""
            return f"delete from {table} {alias}{where}{self._returning(items)}"
        name = self._name("q")
        source, more = self._joined(name)
        where = f"{alias}.{key} = {name}.c0"
        if random.random() < 0.5:
            where += f" and {self.condition(items + more, 1)}"
        return f"delete from {table} {alias} using {source} where {where}{self._returning(items + more)}"

    def _merge(self) -> str:
        random = self.random
        alias, name = self._name("t"), self._name("q")
        kinds = dict(TARGET)
        items = tuple(Item(f"{alias}.{column}", kind) for column, kind in kinds.items())
        source, more = self._joined(name)
        clauses = []
        for _ in range(random.randint(1, 3)):
            if random.random() < 0.6:
                action = random.choice(["delete", "do nothing", "", "", ""]) or (
                    f"update set {self._sets(kinds, items + more)}"
                )
                condition = f" and {self.condition(items + more, 1)}" if random.random() < 0.6 else ""
                clauses.append(f"when matched{condition} then {action}")
            else:
                names = self._settable(kinds)
                make = self.expressions(more)
                values = ["default" if random.random() < 0.1 else make.of(kinds[column], 1) for column in names]
                action = f"insert ({', '.join(['id', *names])}) values ({', '.join([f'{name}.c0', *values])})"
                condition = f" and {self.condition(more, 1)}" if random.random() < 0.6 else ""
                clauses.append(f"when not matched{condition} then {random.choice([action, action, 'do nothing'])}")
        return f"merge into target {alias} using {source} on {alias}.id = {name}.c0 {' '.join(_reachable(clauses))}"

    def _with_change(self) -> str:
        random = self.random
        name = self._name("w")
        text = random.choice([self._values, self._insert_query, self._update, self._delete])()
        while " returning c" in text or " returning " not in text or " returning *" in text:
            text = random.choice([self._values, self._insert_query, self._update, self._delete])()
        rows = self._name("x")
        query: Query = self.query(0)
        items = renamed(query.items, rows)
        return (
            f"with {name} as ({text}) select {name}.*, (select count(*) from target) as n from {name}"
            f" left join ({query.text}) {rows}{columns(items)} on false"
        )


def _reachable(clauses: list[str]) -> list[str]:
    """The clauses without those that stand behind one of their kind without a condition (42601)."""
    kept: list[str] = []
    closed: set[str] = set()
    for clause in clauses:
        kind = "matched" if clause.startswith("when matched") else "not matched"
        if kind not in closed:
            kept.append(clause)
        if not clause.startswith(f"when {kind} and"):
            closed.add(kind)
    return kept
