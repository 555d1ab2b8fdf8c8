"""What texts of dates and times say: their fields, before they are made values of a type.

May import `errors`, `common_errors` and `catalog_data`. Read `fields` first.
"""
