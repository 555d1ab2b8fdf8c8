"""Bytes to statements: the PostgreSQL wire protocol, COPY, result encoding, the command line.

The top storey: its modules may import from every other. Below it nobody knows of sockets. Its rooms from the top:
`command` (the command line), `server` (listening and accepting), `connections` (one client), `copy`, `decoding` (bytes
to values), `protocol` (bytes to messages), `encoding` (Arrow to bytes). Read `frontend.connections.connection` first.
"""
