"""What has been executed, counted by statement (`pg_stat_statements`).

May import `settings`, `access` and the planner's syntax. Read `statements` first; `column_statistics` is what
ANALYZE makes of the values of a column.
"""
