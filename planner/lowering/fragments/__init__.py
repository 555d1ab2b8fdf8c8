"""What SQL is made of while it is lowered: fragments, templates, the state of one lowering, the sources it reads.

May import dialects, the registry's forms and the IR. Read `fragment` first.
"""
