"""Files of others in statements."""
