"""The server's door: the addresses it listens on, the life of each connection
from its first byte to the server's stop.

May import `connections` and the rooms below. Read `accepting` first.
"""
