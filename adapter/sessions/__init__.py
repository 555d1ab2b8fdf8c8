"""A client's session from its start to its end, and the server process that opens sessions and stops them.

`session` is what the two protocols ask for; `statement_life` is how a statement begins, gives its result, ends or
fails; `server` makes what sessions share. The top of the adapter: nothing in it imports from here. May import all of
its other folders. Read `session` first, then `statement_life`.
"""
