"""Lowering: the typed IR to one engine's SQL text.

`lower.lower` is the entry, `engine_errors` the way back: an engine's error as PostgreSQL's. Two halves call each
other: `relations` merges relational nodes into SELECTs, `scalars` prints expressions; a subquery in an expression is
printed by the first. `fragments` holds what both are made of.

How it works. A relational node becomes a `Select`, to which the nodes above it add their clauses as long as that keeps
the meaning; where it does not, the SELECT so far becomes a derived table (`wrap`). Every FROM item has an alias of its
own, so a column means the same wherever it is named, also in subqueries. A column is not computed where it is defined
but where it is used, if that costs nothing (`relations.inlining`).

    Filter(Project(Scan t, a + 1 AS b), b > 3)      ->  SELECT (t1.c1 + 1) AS c4 FROM <t> AS t1 WHERE ((t1.c1 + 1) > 3)

An expression becomes a `Fragment`: its SQL and what a place that takes it has to know of it, whether it may be
repeated, changes with each evaluation, holds a subquery, may raise an error. Nothing looks into SQL once it is made. A
function or operator is printed by its template (planner.functions), in which a fragment that is named twice is bound
to a name (`fragments.templates`). Where engines differ, the dialect is asked (planner.dialects); no lowering knows
which engine it prints for.

May import dialects, functions, the IR and all below; nothing of binding. Read `lower` first, then
`relations.relations` and `scalars.scalars`.
"""
