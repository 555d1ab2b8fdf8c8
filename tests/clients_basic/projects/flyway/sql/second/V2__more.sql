ALTER TABLE orders ADD COLUMN note varchar(40) DEFAULT 'none' NOT NULL;
CREATE INDEX orders_of ON orders (customer) WHERE state = 'new';
UPDATE orders SET note = 'seen' WHERE amount > 3;
