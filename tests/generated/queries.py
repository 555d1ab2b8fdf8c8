"""Random queries: each clause of SELECT, over the tables of `tables.py`."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from msgspec import Struct

from tests.generated.expressions import Expressions, Item
from tests.generated.tables import COLUMNS

FRAMES = (
    "",
    "",
    "rows between 1 preceding and current row",
    "rows between unbounded preceding and 1 following",
    "rows between 1 following and 2 following",
    "range between unbounded preceding and unbounded following",
    "rows between 2 preceding and 2 following exclude current row",
    "groups between 1 preceding and 1 following",
    "rows between unbounded preceding and current row exclude ties",
    "range between current row and unbounded following exclude group",
    "groups between current row and 1 following exclude ties",
    "rows 2 preceding",
)


RANGES = (
    ("int", "2"),
    ("numeric", "1.5"),
    ("float", "0.5::float8"),
    ("date", "interval '1 year'"),
    ("timestamp", "interval '1 month'"),
    ("timestamptz", "interval '10 days'"),
    ("interval", "interval '1 day'"),
    ("time", "interval '2 hours'"),
)
"""What RANGE with an offset may be ordered by, and an offset."""

ROW_FUNCTIONS = (
    ("unnest({text[]})", ("text",)),
    ("unnest({matrix})", ("int",)),
    ("unnest({multirange})", ("range",)),
    ("unnest({int[]}, {text[]})", ("int", "text")),
    ("unnest({text[]}, {matrix}) with ordinality", ("text", "int", "bigint")),
    ("rows from (unnest({int[]}), generate_series(1, 2), unnest({text[]}))", ("int", "int", "text")),
    ("generate_series(timestamp '2020-01-01', '2020-03-01', '13 days 05:00')", ("timestamp",)),
    ("generate_series(3, -4, -2) with ordinality", ("int", "bigint")),
    ("generate_series(0.5, 2, 0.75)", ("numeric",)),
    ("generate_subscripts({matrix}, 1)", ("int",)),
    ('jsonb_each(\'{{"a": 1, "b": [2], "c": null}}\')', ("text", "jsonb")),
    ("jsonb_array_elements_text('[1, \"two\", null, {{}}]') with ordinality", ("text", "bigint")),
    ("jsonb_path_query({jsonb}, '$.b[*]')", ("jsonb",)),
    ("jsonb_path_query({jsonb}, '$.**') with ordinality", ("jsonb", "bigint")),
    ("string_to_table({text}, 'l')", ("text",)),
    ("regexp_split_to_table({text}, '[lo]')", ("text",)),
    ("regexp_matches({text}, '([a-l])(.)', 'g')", ("text[]",)),
)
"""Functions that give rows, and the types of their columns."""

FOLLOWS = (
    (" search depth first by n, p set o", ()),
    (" search breadth first by n set o", ()),
    (" cycle n set c using way", (("c", "bool"),)),
    (" cycle n, p set c to 'y' default 'n' using way", (("c", "text"),)),
    (" search depth first by n set o cycle p set c using way", (("c", "bool"),)),
)
"""SEARCH and CYCLE, and columns that they bring."""

SAMPLES = (
    " tablesample bernoulli (100)",
    " tablesample system (100) repeatable (3)",
    " tablesample bernoulli (0)",
)
LOCKS = ("for update", "for no key update", "for share", "for key share", "for update skip locked", "for share nowait")


OVER = "@over@"
"""Where in a window function's call its window stands, when not at the end."""


class Query(Struct, frozen=True):
    """A query's text, its columns (names and types), and whether its rows' order is fixed."""

    text: str
    items: tuple[Item, ...]
    ordered: bool = False


class Source(Struct, frozen=True):
    """What stands in FROM, and the columns that it brings."""

    text: str
    items: tuple[Item, ...]


class Queries:
    """Queries that are the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self._number = 0

    def _name(self, prefix: str) -> str:
        self._number += 1
        return f"{prefix}{self._number}"

    def expressions(self, items: Sequence[Item]) -> Expressions:
        """What makes expressions over these columns."""
        return Expressions(self.random, items)

    def query(self, depth: int = 2, outer: tuple[Item, ...] = ()) -> Query:
        """The next query; `outer` are the columns of the queries around it."""
        random = self.random
        kinds = [self._plain, self._plain, self._grouped, self._grouped, self._windowed, self._distinct]
        if depth > 0:
            kinds += [self._set_operation, self._with, self._recursive]
        return random.choice(kinds)(depth, outer)

    def _inner(self, outer: tuple[Item, ...]) -> Query:
        """A query inside another one, whose columns are `outer`; a few have all that a whole query may have."""
        return self.query(self.random.choice([0, 0, 0, 1]), outer)

    # FROM

    def source(self, depth: int, outer: tuple[Item, ...]) -> Source:
        """One relation or several joined."""
        random = self.random
        left = self._using() if random.random() < 0.06 else self._relation(depth, outer)
        while random.random() < 0.35:
            right = self._relation(depth - 1, outer)
            both = left.items + right.items
            join = random.choice(
                ["join", "left join", "right join", "full join", "cross join", "lateral", "left lateral"]
            )
            if join == "cross join":
                left = Source(f"{left.text} cross join {right.text}", both)
            elif "lateral" in join:
                inner = self._inner(outer + left.items)
                name = self._name("l")
                items = renamed(inner.items, name)
                words = "cross join lateral" if join == "lateral" else "left join lateral"
                on = "" if join == "lateral" else " on true"
                left = Source(f"{left.text} {words} ({inner.text}) {name}{columns(items)}{on}", left.items + items)
            else:
                on = self._join_condition(left, right, outer, full=join == "full join")
                left = Source(f"{left.text} {join} {right.text} on {on}", both)
        return left

    def _using(self) -> Source:
        """Two tables joined by USING or NATURAL; the merged column stands first."""
        random = self.random
        one, two = random.sample(["n", "s", "d", "j", "k", "emp", "nothing", "staff"], 2)
        a, b, merged = self._name("t"), self._name("t"), self._name("u")
        items = tuple(
            Item(f"{alias}.{column}", kind)
            for alias, table in ((a, one), (b, two))
            for column, kind in COLUMNS[table].items()
            if column != "id"
        )
        join = random.choice(["join", "left join", "right join", "full join"])
        text = f"{one} {a} {join} {two} {b} using (id) as {merged}"
        return Source(text, (Item(f"{merged}.id", "int"), *items))

    def _join_condition(self, left: Source, right: Source, outer: tuple[Item, ...], *, full: bool) -> str:
        random = self.random
        pairs = [(a, b) for a in left.items for b in right.items if a.kind == b.kind]
        equal = "true"
        if pairs:
            a, b = random.choice(pairs)
            equal = f"{a.text} = {b.text}"
        if full:
            # A full join needs a condition that can be merged or hashed (0A000 in PostgreSQL).
            return equal
        more = self.expressions(outer + left.items + right.items).of("bool", 1)
        return random.choice([equal, f"{equal} and {more}", f"{equal} or {more}", more])

    def _relation(self, depth: int, outer: tuple[Item, ...]) -> Source:
        random = self.random
        name = self._name("t")
        roll = random.random()
        if depth > 0 and roll < 0.25:
            inner = self.query(depth - 1)
            items = renamed(inner.items, name)
            return Source(f"({inner.text}) {name}{columns(items)}", items)
        make = self.expressions(())
        if roll < 0.33:
            kinds = [make.any_kind() for _ in range(random.randint(1, 3))]
            rows = ", ".join(f"({', '.join(make.of(kind, 1) for kind in kinds)})" for _ in range(random.randint(1, 4)))
            items = tuple(Item(f"{name}.c{index}", kind) for index, kind in enumerate(kinds))
            return Source(f"(values {rows}) {name}{columns(items)}", items)
        if roll < 0.38:
            return Source(f"generate_series(1, {random.randint(0, 5)}) {name}(g)", (Item(f"{name}.g", "int"),))
        if roll < 0.42:
            text = f"unnest({make.of('int[]', 1)}) with ordinality {name}(e, o)"
            return Source(text, (Item(f"{name}.e", "int"), Item(f"{name}.o", "bigint")))
        if roll < 0.47:
            template, given = random.choice(ROW_FUNCTIONS)
            listing = ", ".join(f"c{number}" for number in range(len(given)))
            text = f"{make.filled(template, 1)} {name}({listing})"
            return Source(text, tuple(Item(f"{name}.c{number}", kind) for number, kind in enumerate(given)))
        table = random.choice(list(COLUMNS))
        items = tuple(Item(f"{name}.{column}", kind) for column, kind in COLUMNS[table].items())
        sample = random.choice(SAMPLES) if table != "staff" and random.random() < 0.06 else ""
        return Source(f"{table} {name}{sample}", items)

    # Conditions

    def condition(self, items: tuple[Item, ...], depth: int) -> str:
        """A condition; subqueries stand in some."""
        random = self.random
        make = self.expressions(items)
        if depth <= 0 or random.random() < 0.7:
            return make.of("bool", 2)
        inner = self._inner(items)
        first = inner.items[0]
        rest = ", ".join(item.text for item in inner.items)
        assert rest
        kind = first.kind
        name = self._name("q")
        one = f"select {name}.c0 from ({inner.text}) {name}{columns(renamed(inner.items, name))}"
        side = make.of(kind, 1)
        return random.choice(
            [
                f"exists ({inner.text})",
                f"not exists ({inner.text})",
                f"{side} in ({one})",
                f"{side} not in ({one})",
                f"{side} = any ({one})",
                f"{side} <> all ({one})",
                f"{side} > any ({one})",
                f"({side} in ({one})) is not true",
                f"{side} is not distinct from ({one} order by 1 limit 1)",
                f"(select count(*) from ({inner.text}) {name}) > 1",
                *self._row_conditions(make, inner, name),
            ]
        )

    def _row_conditions(self, make: Expressions, inner: Query, name: str) -> list[str]:
        """Conditions on rows of several columns, where the query has several."""
        if len(inner.items) < 2:
            return []
        two = f"select {name}.c0, {name}.c1 from ({inner.text}) {name}{columns(renamed(inner.items, name))}"
        row = f"({make.of(inner.items[0].kind, 1)}, {make.of(inner.items[1].kind, 1)})"
        return [
            f"{row} in ({two})",
            f"{row} not in ({two})",
            f"{row} <= all ({two})",
            f"{row} > any ({two})",
            f"{row} = ({two} order by 1, 2 limit 1)",
            f"{row} < ({two} order by 1 desc, 2 limit 1)",
        ]

    def _where(self, items: tuple[Item, ...], depth: int) -> str:
        return f" where {self.condition(items, depth)}" if self.random.random() < 0.6 else ""

    # Kinds of queries

    def _plain(self, depth: int, outer: tuple[Item, ...]) -> Query:
        random = self.random
        source = self.source(depth, outer)
        scope = source.items + outer
        make = self.expressions(scope)
        targets = self._targets(lambda kind: self._scalar(make, kind, scope, depth))
        if random.random() < 0.05:
            call = random.choice(["unnest({int[]})", "generate_series(1, abs({int} % 3))", "unnest({matrix})"])
            targets.append((make.filled(call, 1), f"c{len(targets)}", "int"))
        if source.items and random.random() < 0.05:
            # The whole row of a relation.
            alias = random.choice(source.items).text.split(".")[0]
            whole = random.choice([f"{alias}::text", f"to_jsonb({alias})::text", f"({alias} is null)::text"])
            targets.append((whole, f"c{len(targets)}", "text"))
        text = f"select {listed(targets)} from {source.text}{self._where(scope, depth)}"
        if not outer and random.random() < 0.06:
            # What cannot be locked is refused by both.
            return Query(f"{text} {random.choice(LOCKS)}", targets_items(targets))
        return self._limited(text, targets) if random.random() < 0.25 else Query(text, targets_items(targets))

    def _scalar(self, make: Expressions, kind: str, scope: tuple[Item, ...], depth: int) -> str:
        if depth > 0 and self.random.random() < 0.08:
            source = self.source(0, scope)
            # Its arguments are its own rows': an aggregate of nothing but outer columns would be the outer query's.
            return f"(select {self.expressions(source.items).aggregate(kind, 1)} from {source.text})"
        return make.of(kind, 2)

    def _targets(self, make_one: object, most: int = 4) -> list[tuple[str, str, str]]:
        assert callable(make_one)
        random = self.random
        found = []
        for number in range(random.randint(1, most)):
            kind = Expressions(random, ()).any_kind()
            found.append((make_one(kind), f"c{number}", kind))
        return found

    def _limited(self, text: str, targets: list[tuple[str, str, str]]) -> Query:
        random = self.random
        orders = ", ".join(
            f"{number}{random.choice(['', ' desc', ' nulls first', ' desc nulls last'])}"
            for number in random.sample(range(1, len(targets) + 1), len(targets))
        )
        limit = random.choice(
            [
                "",
                f" limit {random.randint(0, 6)}",
                f" offset {random.randint(0, 3)}",
                f" limit {random.randint(1, 5)} offset 1",
                f" fetch first {random.randint(1, 4)} rows with ties",
            ]
        )
        return Query(f"{text} order by {orders}{limit}", targets_items(targets), ordered=True)

    def _distinct(self, depth: int, outer: tuple[Item, ...]) -> Query:
        random = self.random
        source = self.source(depth, outer)
        scope = source.items + outer
        make = self.expressions(scope)
        targets = self._targets(lambda kind: make.of(kind, 1), 3)
        where = self._where(scope, depth)
        if random.random() < 0.3:
            keys = ", ".join(str(number) for number in range(1, len(targets) + 1))
            return Query(
                f"select distinct on ({targets[0][0]}) {listed(targets)} from {source.text}{where} order by {keys}",
                targets_items(targets),
                ordered=True,
            )
        return Query(f"select distinct {listed(targets)} from {source.text}{where}", targets_items(targets))

    def _grouped(self, depth: int, outer: tuple[Item, ...]) -> Query:
        random = self.random
        source = self.source(depth, outer)
        make = self.expressions(source.items)
        keys = [(make.of(kind, 1), kind) for kind in (make.any_kind() for _ in range(random.randint(0, 3)))]
        keys = [
            key
            for key in keys
            if not key[0].lstrip("(").startswith(("'", "-")) and "select" not in key[0] and not key[0].isdigit()
        ]
        names = [f"k{number}" for number in range(len(keys))]
        inner = ", ".join([f"{text} as {name}" for (text, _), name in zip(keys, names, strict=True)])
        # Keys are computed below, so that what is grouped is a column.
        below = self._name("b")
        carried = ", ".join(f"{item.text} as a{number}" for number, item in enumerate(source.items))
        where = self._where(source.items, depth)
        table = f"(select {', '.join(part for part in (inner, carried) if part)} from {source.text}{where}) {below}"
        items = tuple(Item(f"{below}.a{number}", item.kind) for number, item in enumerate(source.items))
        groups = tuple(Item(f"{below}.{name}", kind) for name, (_, kind) in zip(names, keys, strict=True))
        rows, grouped = self.expressions(items), self.expressions(groups)
        targets = []
        for number in range(random.randint(1, 4)):
            kind = grouped.any_kind()
            text = grouped.of(kind, 1) if groups and random.random() < 0.4 else rows.aggregate(kind, 1)
            targets.append((text, f"c{number}", kind))
        listing = ", ".join(item.text for item in groups)
        clause = ""
        if groups:
            clause = " group by " + random.choice(
                [
                    listing,
                    listing,
                    listing,
                    f"rollup ({listing})",
                    f"cube ({listing})",
                    f"grouping sets (({listing}), ())",
                    f"distinct rollup ({listing}), cube ({groups[0].text})",
                    f"{groups[0].text}, grouping sets ({groups[-1].text}, (), ({listing}))",
                ]
            )
            if random.random() < 0.3:
                targets.append((f"grouping({listing})", f"c{len(targets)}", "int"))
        having = f" having {rows.aggregate('bool', 1)}" if random.random() < 0.25 else ""
        return Query(f"select {listed(targets)} from {table}{clause}{having}", targets_items(targets))

    def _windowed(self, depth: int, outer: tuple[Item, ...]) -> Query:
        random = self.random
        source = self.source(depth, outer)
        make = self.expressions(source.items)
        if random.random() < 0.25:
            return self._ranged(source, make, self._where(source.items + outer, depth))
        every = ", ".join(item.text for item in source.items)
        targets = []
        first = None
        for number in range(random.randint(1, 3)):
            parts = f"partition by {make.of(make.any_kind(), 1)} " if random.random() < 0.6 else ""
            key = make.of(make.any_kind(), 1)
            # What depends on the order of rows is ordered by all columns: equal rows are then alike. In several orders
            # they would not be: which of them comes first in one says nothing of the other.
            order = f"order by {key}{random.choice(['', ' desc', ' nulls first'])}, {every}"
            parts, order = first = first or (parts, order)
            kind = make.any_kind()
            call, kind = random.choice(
                [
                    ("row_number()", "bigint"),
                    ("rank()", "bigint"),
                    ("dense_rank()", "bigint"),
                    ("ntile(3)", "int"),
                    ("cume_dist()", "float"),
                    ("percent_rank()", "float"),
                    (f"lag({make.of(kind, 1)})", kind),
                    (f"lead({make.of(kind, 1)}, 2)", kind),
                    (f"lag({make.of('int', 1)}, 1, -1)", "int"),
                    (f"first_value({make.of(kind, 1)})", kind),
                    (f"last_value({make.of(kind, 1)})", kind),
                    (f"nth_value({make.of(kind, 1)}, 2)", kind),
                    (f"sum({make.of('int', 1)} % 1000)", "bigint"),
                    ("count(*)", "bigint"),
                    (f"count({make.of('text', 1)})", "bigint"),
                    (f"min({make.of('numeric', 1)})", "numeric"),
                    (f"max({make.of('text', 1)})", "text"),
                    (f"string_agg({make.of('text', 1)}, ',')", "text"),
                    (f"array_agg({make.of('int', 1)})", "int[]"),
                    (f"bool_or({make.of('bool', 1)})", "bool"),
                    (f"sum({make.of('int', 1)} % 100) filter (where {make.of('bool', 1)})", "bigint"),
                    (f"lag({make.of(kind, 1)}, {make.of('int', 0)} % 3)", kind),
                    (f"(lead({source.items[0].text.split('.')[0]}){OVER})::text", "text"),
                    (f"first_value({make.of('pair', 1)})", "pair"),
                    (f"max({make.of('mood', 1)})", "mood"),
                    (f"min({make.of('int[]', 1)})", "int[]"),
                    (f"array_agg({make.of('text', 1)}) filter (where {make.of('bool', 1)})", "text[]"),
                    (f"jsonb_agg({make.of('int', 1)})", "jsonb"),
                    (f"range_agg({make.of('range', 1)})", "multirange"),
                    (f"sum({make.of('interval', 1)})", "interval"),
                    (f"round(avg({make.of('int', 1)} % 1000){OVER}, 6)", "numeric"),
                    (f"bit_xor({make.of('int', 1)})", "int"),
                ]
            )
            call = call if OVER in call else call + OVER
            over = f" over ({parts}{order} {random.choice(FRAMES)})"
            targets.append((call.replace(OVER, over), f"c{number}", kind))
        return Query(
            f"select {listed(targets)} from {source.text}{self._where(source.items + outer, depth)}",
            targets_items(targets),
        )

    def _ranged(self, source: Source, make: Expressions, where: str) -> Query:
        """Aggregates, which do not depend on the order of equal rows, over a named window."""
        random = self.random
        kind, offset = random.choice(RANGES)
        start = random.choice([f"{offset} preceding", "current row", "unbounded preceding", f"{offset} following"])
        end = f"{offset} following" if "following" in start else random.choice(["current row", f"{offset} following"])
        exclude = random.choice(["", "", " exclude group"])
        order = f"order by {make.of(kind, 1)}{random.choice(['', ' desc', ' nulls first'])}"
        parts = f"partition by {make.of(make.any_kind(), 1)} " if random.random() < 0.4 else ""
        calls = random.sample(
            [
                ("count(*)", "bigint"),
                (f"sum({make.of('int', 1)} % 1000)", "bigint"),
                (f"max({make.of('text', 1)})", "text"),
                (f"min({make.of('date', 1)})", "date"),
                (f"bool_and({make.of('bool', 1)})", "bool"),
                (f"sum(round({make.of('numeric', 1)} % 1000, 2))", "numeric"),
                (f"count({make.of('int[]', 1)})", "bigint"),
                ("rank()", "bigint"),
                ("cume_dist()", "float"),
            ],
            random.randint(1, 3),
        )
        targets = [(f"{call} over w", f"c{number}", kind) for number, (call, kind) in enumerate(calls)]
        window = f"window v as ({parts}), w as (v {order} range between {start} and {end}{exclude})"
        return Query(f"select {listed(targets)} from {source.text}{where} {window}", targets_items(targets))

    def _set_operation(self, depth: int, outer: tuple[Item, ...]) -> Query:
        random = self.random
        kinds = [self.expressions(()).any_kind() for _ in range(random.randint(1, 3))]
        sides = []
        for _ in range(random.randint(2, 3)):
            source = self.source(depth - 1, outer)
            scope = source.items + outer
            make = self.expressions(scope)
            listing = ", ".join(f"{make.of(kind, 1)} as c{number}" for number, kind in enumerate(kinds))
            sides.append(f"(select {listing} from {source.text}{self._where(scope, depth - 1)})")
        text = sides[0]
        for side in sides[1:]:
            text += (
                f" {random.choice(['union', 'union all', 'intersect', 'intersect all', 'except', 'except all'])} {side}"
            )
        targets = [("", f"c{number}", kind) for number, kind in enumerate(kinds)]
        return self._limited(text, targets) if random.random() < 0.3 else Query(text, targets_items(targets))

    def _with(self, depth: int, outer: tuple[Item, ...]) -> Query:
        random = self.random
        first = self.query(depth - 1, self.random.choice([(), outer]))
        name = self._name("w")
        items = renamed(first.items, name)
        hint = random.choice(["", "", " materialized", " not materialized"])
        a, b = self._name("x"), self._name("x")
        scope = tuple(Item(item.text.replace(f"{name}.", f"{alias}."), item.kind) for alias in (a, b) for item in items)
        scope += outer
        make = self.expressions(scope)
        targets = self._targets(lambda kind: make.of(kind, 1), 3)
        join = random.choice(["join", "left join", "cross join"])
        on = "" if join == "cross join" else f" on {make.of('bool', 1)}"
        body = f"select {listed(targets)} from {name} {a} {join} {name} {b}{on}{self._where(scope, depth - 1)}"
        return Query(f"with {name}{columns(items)} as{hint} ({first.text}) {body}", targets_items(targets))

    def _recursive(self, depth: int, outer: tuple[Item, ...]) -> Query:
        random = self.random
        name = self._name("r")
        word = random.choice(["union", "union all"])
        extra = self.expressions((Item(f"{name}.n", "int"), Item(f"{name}.p", "text")))
        seed = random.choice(["select 1, 'a'::text", "select e.id, e.name from emp e where e.boss is null"])
        # Both terms have the same collation.
        text = extra.of("text", 1).replace('collate "C"', "|| 'c'")
        step = random.choice(
            [
                f"select {name}.n + 1, left({text}, 8) from {name} where {name}.n < 5",
                f"select e.id, left({name}.p || '/' || e.name, 40) from emp e join {name} on e.boss = {name}.n",
            ]
        )
        items: tuple[Item, ...] = (Item(f"{name}.n", "int"), Item(f"{name}.p", "text"))
        follow = ""
        if random.random() < 0.4:
            follow, more = random.choice(FOLLOWS)
            items += tuple(Item(f"{name}.{column}", kind) for column, kind in more)
        make = self.expressions(items + outer)
        targets = self._targets(lambda kind: make.of(kind, 1), 3)
        where = self._where(items + outer, depth - 1)
        body = f"select {listed(targets)} from {name}{where}"
        text = f"with recursive {name}(n, p) as ({seed} {word} {step}){follow} {body}"
        return Query(text, targets_items(targets))


def listed(targets: list[tuple[str, str, str]]) -> str:
    """The target list."""
    return ", ".join(f"{text} as {name}" for text, name, _ in targets)


def targets_items(targets: list[tuple[str, str, str]]) -> tuple[Item, ...]:
    """The columns of a query with these targets."""
    return tuple(Item(name, kind) for _, name, kind in targets)


def renamed(items: tuple[Item, ...], name: str) -> tuple[Item, ...]:
    """The columns of a subquery, as its alias `name` gives them."""
    return tuple(Item(f"{name}.c{number}", item.kind) for number, item in enumerate(items))


def columns(items: tuple[Item, ...]) -> str:
    """The list of column names after an alias."""
    return f"({', '.join(item.text.split('.')[1] for item in items)})"
