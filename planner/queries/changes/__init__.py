"""INSERT, UPDATE and DELETE. May import `queries` and what is below it. Read `dml` first."""
