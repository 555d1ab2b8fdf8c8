"""How EXPLAIN says what it knows: `formats`. May import nothing of the adapter but its results. Read `formats` first."""
