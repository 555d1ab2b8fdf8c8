CREATE TYPE state AS ENUM ('new', 'paid');
CREATE TABLE customers (id serial PRIMARY KEY, name text NOT NULL UNIQUE);
CREATE TABLE orders (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    customer int REFERENCES customers ON DELETE CASCADE,
    state state NOT NULL DEFAULT 'new',
    amount numeric(10,2) CHECK (amount > 0)
);
COMMENT ON TABLE orders IS 'what is sold';
