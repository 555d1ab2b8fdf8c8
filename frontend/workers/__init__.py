"""`tidegate serve --workers N`: the process that starts the workers and takes the clients in, and how it reaches them.

May import `storage.host_memory` and what serves the temporary folder; nothing that serves statements, for the
supervisor stays small. Read `supervisor` first; `control` is what passes between it and a worker.
"""
