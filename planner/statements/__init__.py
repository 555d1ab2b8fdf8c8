"""Utility statements as frozen records: what `utility` makes of parse trees and the adapter carries out.

May import `types` and `syntax`. Read `records` first, which gathers them all.
"""
