"""Files of others: places, formats and tables."""
