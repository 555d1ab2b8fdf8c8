"""From a parsed statement to the code that carries it out, and the statements that are about the session itself:
transaction control, settings, cursors, prepared statements, EXPLAIN.

May import `definitions`, `changes`, `queries`, `execution` and what is below them. Read `dispatch` first.
"""
