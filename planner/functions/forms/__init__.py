"""How an engine says a routine: templates, and what several families share in writing them.

May import `dialects` and `types`. Read `form` first.
"""
