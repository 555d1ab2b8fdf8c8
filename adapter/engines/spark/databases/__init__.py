"""Tables of other databases on Spark, by JDBC.

May import `lake` and the planner. Read `jdbc` first: it is all there is.
"""
