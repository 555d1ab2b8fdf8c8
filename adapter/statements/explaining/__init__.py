"""How EXPLAIN says what it knows. May import nothing of the adapter but its results. Read `formats` first."""
