"""Values of types that no engine knows, as the texts that stand for them: read, printed and compared.

May import the types and the errors. Read `timetz` first.
"""
