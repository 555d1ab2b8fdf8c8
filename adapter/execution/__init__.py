"""What a running statement holds: `Running` names its parts, each in a module of its own.

`session_state` is what the session keeps, `services` what the server process keeps for all sessions, `session_registry`
the other sessions as one may see them. A session has `portals` and `prepared` statements; their rows wait in `cursors`
and a `spool`. `guards`, `relation_names` and `session_settings` are rules that many statements share. Nothing here
knows how a particular statement works. May import `transactions`, `engines` and what is below them. Read `statement`
first, then `session_state`.
"""
