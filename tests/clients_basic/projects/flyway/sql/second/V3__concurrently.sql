CREATE INDEX CONCURRENTLY orders_by_note ON orders (note);
