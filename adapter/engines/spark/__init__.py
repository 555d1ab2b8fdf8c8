"""The Spark engine: everything can run here, and everything above the fast-path limit does.

May import `engines.common`; PySpark is imported here alone, in a thread, when it is first needed. Read `engine` first,
then `runtime` (the Java process and its sessions) and `views` (tables as Spark sees them).
"""
