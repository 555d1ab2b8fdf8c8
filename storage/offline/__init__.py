"""Looking at an environment from outside: what there is, whether it is whole, and tables as files of their own.

For commands that run while servers do, or while none does; they take no lease. May import every folder of the storage
but `doubles`. Read `admin` (how a state is looked at) first, then `fsck` and `export`.
"""
