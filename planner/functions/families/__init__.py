"""The forms of routines, family by family: what each is called on the local engine and on Spark.

May import `forms`, `engines`, `udfs`, `dialects`, the IR and `types`. Read `all` first, then any family; `arithmetic`
and `text` are typical.
"""
