"""What SQL is made of while it is lowered: fragments, templates, the state of one lowering, the sources it reads.

It imports dialects, the registry's forms and the IR. Read `fragment.py` first.
"""
