"""What clients send as values: parameters and COPY fields, text or binary, to literals and Arrow columns.

The way back is `encoding`. May import `protocol`, `encoding` (for what both directions share) and the planner's types
and values. Read `text` first.
"""
