INSERT INTO customers (name) VALUES ('${flyway:user}'), ('Bo; with a semicolon'), ('It''s -- no comment');
INSERT INTO orders (customer, amount) SELECT id, id * 2.5 FROM customers;
