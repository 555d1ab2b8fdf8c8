"""The typed intermediate representation: what binding makes and lowering prints.

May import `types`. Read `nodes` first: it is the contract of the planner.
"""
