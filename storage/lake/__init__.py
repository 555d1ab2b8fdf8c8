"""Files of others: what is there, what is in it, how it is read and written. Nothing of an environment lies here.

May import `stores` and what stands below. Everything blocks and runs on threads. Read `places` first.
"""
