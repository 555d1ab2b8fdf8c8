"""The worker processes of one server, as each of them knows the others: what they ask each other, and how.

May import nothing of the adapter's other rooms: what a worker answers is told it by `adapter.sessions`. Read `mesh`
first (the way of a question), then `colleagues` (the questions).
"""
