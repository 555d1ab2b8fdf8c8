"""What a server does by itself with statements of its own.

May import `materialized` and what lies below; sessions are opened for it by the server. Read `views` first.
"""
