"""One client: the flow of its messages, its bytes on asyncio, its start-up, and what it asks of a session.

`connection` holds the rules and knows no sockets; only `channel` knows asyncio's transports. What is asked of the
adapter is in `session_protocol`. May import `copy`, `decoding`, `protocol`, `encoding`, and the storeys below for the
records that they answer with. Read `connection` first.
"""
