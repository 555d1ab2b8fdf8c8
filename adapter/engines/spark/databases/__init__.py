"""Tables of other databases on Spark, by JDBC.

May import `lake` and the planner. Read `jdbc` first: frames, columns and tables, of PostgreSQL by `postgresql` and of
others by `others`.
"""
