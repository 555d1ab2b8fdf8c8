"""Sessions and what coordinates them: transactions, reads, read-then-write loops, DDL, the engines, system catalogs."""
