"""Messages: bytes to what clients ask, and answers to bytes. No I/O, no waiting.

May import `encoding`, whose columns are in the answers, and the planner's errors and types. Read `messages` first, then
`codec` (in) and `backend` (out).
"""
