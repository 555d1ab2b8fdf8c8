"""Plans: bound statements with what running them needs, and what is found out from a plan alone, without any session.

What a query requires of the rows it reads (`predicates`), rows that need no engine (`computed`), plans, expressions
and rows as text for people. May import `planner` and the ground of the adapter only. Read `plan_cache`
first.
"""
