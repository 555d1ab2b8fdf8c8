CREATE TABLE n (id int4, i2 int2, i4 int4, i8 int8, f4 float4, f8 float8, num numeric(10,2), big numeric(20,5), u numeric, b bool);
INSERT INTO n VALUES
 (1, 1, 10, 100, 1.5, 2.5, 12.34, 1234567.12345, 0.5, true),
 (2, -2, -20, -200, -0.25, -3.5, -0.05, -0.00001, 12.345, false),
 (3, 0, 0, 0, 0, 0, 0.00, 0, 0, null),
 (4, 32767, 2147483647, 9223372036854775807, 3e30, 1e300, 99999999.99, 999999999999999.99999, 1000000, true),
 (5, -32768, -2147483648, -9223372036854775808, -1e-30, -1e-300, -99999999.99, -999999999999999.99999, -0.125, false),
 (6, null, null, null, null, null, null, null, null, null),
 (7, 7, 3, 7, 0.1, 0.1, 7.00, 3.00000, 3, true),
 (8, 3, 7, 2, 100000, 123456789.123, 0.33, 2.50000, 2.5, false);
CREATE TABLE s (id int4, t text, v varchar(10), c char(5), bt bytea, uu uuid);
INSERT INTO s VALUES
 (1, 'hello', 'world', 'ab', '\x0102ff', '00000000-0000-0000-0000-000000000001'),
 (2, '', '', '', '\x', 'ffffffff-ffff-ffff-ffff-ffffffffffff'),
 (3, null, null, null, null, null),
 (4, 'Hello World', 'HELLO', 'abcde', '\xdeadbeef', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'),
 (5, '  pad  ', 'a_b%c', 'a b', '\x00', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a12'),
 (6, 'it''s "q"', 'x,y,z', 'x', '\x5c27', '123e4567-e89b-12d3-a456-426614174000'),
 (7, 'naïve café', 'ñandú', 'é', '\xc3a9', null),
 (8, 'a\b', '{a,b}', ',', '\x61', null);
CREATE TABLE d (id int4, dt date, tm time, ts timestamp, tz timestamptz, iv interval);
INSERT INTO d VALUES
 (1, '2020-02-29', '12:34:56.789', '2020-02-29 12:34:56.789012', '2020-02-29 12:34:56.789012+00', '1 year 2 mons 3 days 04:05:06.7'),
 (2, '1999-12-31', '00:00:00', '1999-12-31 23:59:59.999999', '1999-12-31 23:59:59.999999+00', '-1 mons -2 days -03:04:05'),
 (3, null, null, null, null, null),
 (4, '2000-01-01', '23:59:59.999999', '2000-01-01 00:00:00', '2000-01-01 00:00:00+00', '0'),
 (5, '1970-01-01', '01:02:03', '1970-01-01 00:00:00', '1970-01-01 00:00:00+00', '30 days'),
 (6, '1969-07-20', '20:17:40', '1969-07-20 20:17:40.5', '1969-07-20 20:17:40.5+00', '1 mon'),
 (7, '2024-07-31', '06:00:00.000001', '2024-07-31 06:00:00.000001', '2024-07-31 06:00:00.000001+00', '1 mon -30 days'),
 (8, '2021-01-03', '10:10:10.1', '2021-01-03 10:10:10.1', '2021-01-03 10:10:10.1+00', '100:00:00');
CREATE TABLE a (id int4, ia int4[], ta text[], j json, jb jsonb);
INSERT INTO a VALUES
 (1, '{1,2,3}', '{a,b,c}', '{"a": 1, "b": [1, 2, {"c": null}], "d": "x"}', '{"a": 1, "b": [1, 2, {"c": null}], "d": "x"}'),
 (2, '{}', '{}', '[]', '[]'),
 (3, null, null, null, null),
 (4, '{1,NULL,3}', '{a,NULL,"x y"}', '[1, "two", null, true]', '[1, "two", null, true]'),
 (5, '{5}', '{"NULL","q\"q","b\\s",""}', '"str"', '"str"'),
 (6, '{3,1,2,2}', '{b,a}', '{"k": {"n": 1.50}}', '{"k": {"n": 1.50}}');
CREATE TABLE emp (id int4, dept text, name text, salary numeric(10,2), hired date, boss int4);
INSERT INTO emp VALUES
 (1, 'eng', 'ann', 120.50, '2015-01-10', null), (2, 'eng', 'bob', 100.00, '2016-03-01', 1), (3, 'eng', 'cat', 100.00, '2017-05-05', 1),
 (4, 'ops', 'dan', 80.25, '2015-07-07', 1), (5, 'ops', 'eve', null, '2018-08-08', 4), (6, null, 'fay', 55.00, null, 4),
 (7, 'hr', 'gus', 70.00, '2019-09-09', null);
CREATE TABLE dept (code text, title text, floor int4);
INSERT INTO dept VALUES ('eng', 'Engineering', 3), ('ops', 'Operations', 1), ('law', 'Legal', null);
CREATE TABLE nothing (id int4, x text);
