"""The typed intermediate representation: what binding makes and lowering prints.

`nodes` has scalars and relations, which contain each other, `bound` the statements made of them, `rewrite` the generic
walks, `physical` the Arrow type of each type, `written` how an expression was written where the nodes do not tell.

May import `types`. Read `nodes` first: it is the contract of the planner.
"""
