"""What texts of dates and times say: their fields, before they are made values of a type.

May import `errors`, `common_errors`, `catalog_data` and `ir.nodes`. Read `fields` first.
"""
