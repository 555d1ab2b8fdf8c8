"""Who computes when: the classes of statements, what each has of the machine, and the queues in front of the engines.

`machine` (what there is), `classes` (what each class gets of it), `admission` (who may compute now, and who waits).
Engines ask it for each piece of work. May import `execution_context` and what is below it. Read `classes` first.
"""
