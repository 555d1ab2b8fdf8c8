"""The Java process that Spark runs in: how it is started and ended, and shared by the workers of a server.

May import nothing of ours. Read `gateway` first; `names` saves questions of its gateway, and
`class_archive` runs by itself, when an installation is set up.
"""
