"""What sessions know of themselves, a kind in each module: what they have locked and wait for, how far they are.

May import `execution` and what stands below it. Read `progress_facts` first; `session_facts` gathers the rows.
"""
