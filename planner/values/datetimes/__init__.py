"""What texts of dates and times say: their fields, before they are made values of a type.

May import `errors`, `common_errors`, `catalog_data`, `ir.nodes` and `values.interval_text`. Read `fields` first.
"""
