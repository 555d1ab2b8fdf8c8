"""Which columns stored queries, bodies of functions and conditions of policies name, and these under other names.

May import `queries` and what lies below. Read `noted` first, then `renamed`.
"""
