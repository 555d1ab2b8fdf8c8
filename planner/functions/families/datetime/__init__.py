"""The forms of routines over dates, times, timestamps and intervals.

May import `forms`, `engines`, `dialects`, the IR and `types`. Read `arithmetic` first.
"""
