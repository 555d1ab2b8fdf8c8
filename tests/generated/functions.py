"""Random functions of SQL, and queries that call them."""

from __future__ import annotations

from msgspec import Struct

from tests.generated.expressions import Expressions, Item
from tests.generated.queries import Queries, columns, listed, renamed
from tests.generated.tables import TYPE_NAMES
from tests.generated.trials import Trial


class Function(Struct, frozen=True):
    """A function: its parameters' names (None for one without) and kinds, how many of them have defaults; its result's
    kind, or its result's columns where it has any."""

    name: str
    parameters: tuple[tuple[str | None, str], ...]
    defaults: int
    is_set: bool
    kind: str
    columns: tuple[Item, ...] = ()


class Functions(Queries):
    """Trials with functions, each in a transaction that is rolled back; the same for the same seed."""

    def trial(self) -> Trial:
        """The next one: a function or two, and queries that call them."""
        random = self.random
        statements: list[str] = []
        functions: list[Function] = []
        for _ in range(random.choice([1, 1, 2])):
            text, function = self._create(functions)
            statements.append(text)
            functions.append(function)
        calls = [self._caller(random.choice(functions)) for _ in range(random.randint(1, 3))]
        return Trial(("begin",), (*statements, *calls), len(functions) + len(calls))

    # Functions

    def _create(self, others: list[Function]) -> tuple[str, Function]:
        random = self.random
        name = self._name("f")
        make = self.expressions(())
        kinds = [make.any_kind() for _ in range(random.randint(0, 3))]
        is_named = random.random() < 0.8
        parameters = tuple((f"{name}_p{n}" if is_named else None, kind) for n, kind in enumerate(kinds))
        defaults = random.choice([0, 0, random.randint(0, len(kinds))])
        declared = []
        for number, (parameter, kind) in enumerate(parameters, 1):
            default = ""
            if number > len(parameters) - defaults:
                default = f"{random.choice([' default', ' ='])} {make.of(kind, 1)}"
            declared.append(f"{parameter + ' ' if parameter else ''}{TYPE_NAMES[kind]}{default}")
        inside = tuple(
            Item(random.choice([parameter, f"{name}.{parameter}"]) if parameter else f"${n}", kind)
            for n, (parameter, kind) in enumerate(parameters, 1)
        )
        shape = random.choice(["expression", "expression", "expression", "row", "set", "table", "out"])
        if shape in ("table", "out"):
            query = self.query(1, inside)
            given = self._name("q")
            outs = tuple(Item(f"o{number}", item.kind) for number, item in enumerate(query.items))
            listing = ", ".join(f"{given}.c{number}::{TYPE_NAMES[item.kind]}" for number, item in enumerate(outs))
            body = f"select {listing} from ({query.text}) {given}{columns(renamed(query.items, given))}"
            outwards = [f"{item.text} {TYPE_NAMES[item.kind]}" for item in outs]
            if shape == "table":
                returns = f"returns table ({', '.join(outwards)})"
            else:
                declared = [*(f"out {out}" for out in outwards), *declared]
                returns = f"returns setof {'record' if len(outs) > 1 else TYPE_NAMES[outs[0].kind]}"
            function = Function(name, parameters, defaults, True, outs[0].kind, outs)
        else:
            kind = make.any_kind()
            returns = f"returns {'setof ' if shape == 'set' else ''}{TYPE_NAMES[kind]}"
            if shape == "expression":
                body = f"select {self._inside(kind, inside, others)}"
            else:
                source = self.source(1, inside)
                scope = source.items + inside
                last = " order by 1 limit 1" if shape == "row" else ""
                body = f"select {self._inside(kind, scope, others)} from {source.text}{self._where(scope, 1)}{last}"
            function = Function(name, parameters, defaults, shape == "set", kind)
        options = [
            random.choice(["volatile", "stable", "immutable", "immutable"]),
            *random.sample(
                ["strict", "parallel safe", "security definer", "leakproof", "cost 5"], random.choice([0, 0, 1, 2])
            ),
        ]
        text = f"create function {name}({', '.join(declared)}) {returns} language sql {' '.join(options)}"
        return f"{text} {self._body(body, standard=shape != 'out')}", function

    def _body(self, query: str, *, standard: bool) -> str:
        # PostgreSQL 15 takes the names of OUT parameters for those of arguments behind them in a standard body.
        drawn = self.random.random() * (1 if standard else 0.8)
        if drawn < 0.7:
            return f"as $function${query}$function$"
        if drawn < 0.8:
            return f"as $function$select 1; {query};$function$"
        return f"begin atomic {query}; end"

    def _inside(self, kind: str, scope: tuple[Item, ...], others: list[Function]) -> str:
        make = self.expressions(scope)
        usable = [one for one in others if not one.is_set and one.kind == kind]
        if usable and self.random.random() < 0.5:
            text = self._call(usable[0], make)
        else:
            text = self._scalar(make, kind, scope, 1)
        return f"({text})::{TYPE_NAMES[kind]}"

    # Calls

    def _call(self, function: Function, make: Expressions) -> str:
        random = self.random
        count = len(function.parameters)
        given = random.randint(count - function.defaults, count)
        parts = [
            # A constant has its type said: what it would be taken for is another matter.
            (parameter, f"({make.of(kind, 1)})::{TYPE_NAMES[kind]}")
            for parameter, kind in function.parameters[:given]
        ]
        if parts and parts[0][0] and random.random() < 0.3:
            random.shuffle(parts)
            return f"{function.name}({', '.join(f'{parameter} => {text}' for parameter, text in parts)})"
        return f"{function.name}({', '.join(text for _, text in parts)})"

    def _caller(self, function: Function) -> str:
        random = self.random
        source = self.source(1, ())
        make = self.expressions(source.items)
        alone = self._call(function, self.expressions(()))
        name = self._name("r")
        items = function.columns or (Item(name, function.kind),)
        over = self.expressions(tuple(Item(f"{name}.{item.text}", item.kind) for item in items))
        targets = listed(self._targets(lambda kind: over.of(kind, 1), 3))
        where = f" where {over.of('bool', 1)}" if random.random() < 0.4 else ""
        call = self._call(function, make)
        if function.is_set:
            return random.choice([
                f"select * from {alone}",
                f"select {targets} from {alone} {name}{where}",
                f"select {targets} from {source.text} cross join lateral {call} {name}{where}",
                f"select count(*), count({name}.*) from {source.text} left join lateral {call} {name} on true",
                f"select count(*) from {source.text} where exists (select from {call} {name}{where})",
                f"select {source.items[0].text} as c0, {call} as c1 from {source.text}",
                f"select {source.items[0].text} as c0, array(select {name}::text from {call} {name} order by 1) as c1"
                f" from {source.text}",
                f"select count(*), max(ordinality) from {alone} with ordinality {name}",
                f"select * from rows from ({alone}, generate_series(1, 3)) {name} limit 0",
            ])  # fmt: skip
        return random.choice([
            f"select {alone} as c0",
            f"select {call} as c0, {source.items[0].text} as c1 from {source.text}",
            f"select {call} as c0, count(*) as c1 from {source.text} group by 1",
            f"select {source.items[0].text} as c0 from {source.text} where {call} is not null",
            f"select max(({call})::text) as c0, count(distinct {call}) as c1 from {source.text}",
            f"select {targets} from {alone} {name}{where}",
            f"select {targets} from {source.text} cross join lateral {call} {name}{where}",
            f"select row_number() over (order by {call}) as c0 from {source.text}",
        ])  # fmt: skip
