"""The forms of routines over types that no engine knows: held as text or bytes, computed in Python (`udfs.opaque`).

May import `forms`, `engines`, `dialects`, the IR and `types`. Read `network` first.
"""
