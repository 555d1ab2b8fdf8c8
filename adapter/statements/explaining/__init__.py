"""How EXPLAIN says what it knows: `formats`. Knows of the adapter's results only."""
