CREATE TABLE stays_away (id int);
INSERT INTO stays_away SELECT 1 / 0;
