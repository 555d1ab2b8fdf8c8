"""Types that users define: making and changing them.

May import `definitions.constraints`, `definitions.common` and what is below. Read `names` first: which type a statement
means.
"""
