"""What the scripts of extensions (`planner.extensions`) call: functions of one row, each module an extension's.

May import `udfs.table`, the types, their values and the errors. Read `pgcrypto` first.
"""
