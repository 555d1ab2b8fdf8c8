"""The settings of sessions: which there are (`catalogue`), and their values (`values`), immutable and in layers.

How a statement reads or changes them is in `adapter.execution.session_settings`. May import no other folder of the
adapter. Read `values` first.
"""
