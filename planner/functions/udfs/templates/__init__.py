"""Templates of to_timestamp, to_date and to_char: their parts, and what their fields find in a text.

May import the values of dates and times and the errors. Read `template_patterns` first, then `datetime_scanning`.
"""
