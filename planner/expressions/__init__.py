"""Expressions other than calls: from parse trees to typed scalars.

May import `resolution`, the IR, `syntax` and all below; queries inside expressions are bound through
`resolution.query`. Read `bind` first; every other module binds one kind of expression.
"""
