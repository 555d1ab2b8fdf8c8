"""Functions and procedures carried out statement by statement, where they are not part of the query that calls them.

May import `execution`, `transactions`, `plans` and the planner. Read `bodies` first.
"""
