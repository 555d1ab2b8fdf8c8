"""What materialized views hold: which moment their stored rows are of, and whether that still is what they show.

May import `transactions` and what lies below. Read `journal` first, then `freshness`.
"""
