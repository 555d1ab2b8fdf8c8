drop schema if exists generated cascade;
create schema generated;
set search_path = generated;
create table n (id int, i2 int, i4 int, i8 bigint, num numeric(12,2), f8 float8, b bool);
insert into n values
    (1, 1, 10, 100, 12.34, 2.5, true), (2, -2, -20, -200, -0.05, -3.5, false), (3, 0, 0, 0, 0.00, 0, null),
    (4, 32767, 2147483647, 4000000000, 99999999.99, 1e15, true), (5, -768, -2147483, -4000000000, -999.5, -1e-30, false),
    (6, null, null, null, null, null, null), (7, 7, 3, 7, 7.00, 0.1, true), (8, 3, 7, 2, 0.33, 1234.123, false),
    (9, 7, 3, 7, 7.00, 0.1, true);
create table s (id int, t text, v varchar(12), u uuid, bt bytea);
insert into s values
    (1, 'hello', 'world', '00000000-0000-0000-0000-000000000001', '\x0102ff'),
    (2, '', '', 'ffffffff-ffff-ffff-ffff-ffffffffffff', '\x'), (3, null, null, null, null),
    (4, 'Hello World', 'HELLO', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '\xdeadbeef'),
    (5, '  pad  ', 'a_b%c', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a12', '\x00'), (6, 'eng', 'ops', null, '\x5c27'),
    (7, 'naïve café', 'ñandú', '123e4567-e89b-12d3-a456-426614174000', '\xc3a9'), (8, 'eng', '10', null, '\x61');
create table d (id int, dt date, tm time, ts timestamp, tz timestamptz, iv interval);
insert into d values
    (1, '2020-02-29', '12:34:56.789', '2020-02-29 12:34:56.789012', '2020-02-29 12:34:56.789012+00', '1 year 2 mons 3 days 04:05:06.7'),
    (2, '1999-12-31', '00:00:00', '1999-12-31 23:59:59.999999', '1999-12-31 23:59:59.999999+00', '-1 mons -2 days -03:04:05'),
    (3, null, null, null, null, null), (4, '2000-01-01', '23:59:59.999999', '2000-01-01', '2000-01-01 00:00:00+00', '0'),
    (5, '1970-01-01', '01:02:03', '1970-01-01', '2021-10-31 01:30:00+00', '30 days'),
    (6, '1969-07-20', '20:17:40', '1969-07-20 20:17:40.5', '1969-07-20 20:17:40.5+00', '1 mon'),
    (7, '2024-07-31', '06:00:00.000001', '2024-07-31 06:00:00.000001', '2021-03-28 01:00:00+00', '1 mon -30 days');
create table j (id int, ia int[], ta text[], jb jsonb, r int4range, bi bit(4));
insert into j values
    (1, '{1,2,3}', '{a,b,c}', '{"a": 1, "b": [1, 2, {"c": null}], "d": "x"}', '[1,5)', B'1010'),
    (2, '{}', '{}', '[]', 'empty', B'0000'), (3, null, null, null, null, null),
    (4, '{1,NULL,3}', '{a,NULL,"x y"}', '[1, "two", null, true]', '(,3)', B'1111'),
    (5, '{5}', '{"NULL","q\"q","b\\s",""}', '"str"', '[7,)', B'0001'),
    (6, '{3,1,2,2}', '{b,a}', '{"k": {"n": 1.5}}', '[2,3)', B'1010');
create type mood as enum ('sad', 'ok', 'happy');
create domain modest as int check (value between -1000000 and 1000000);
create type pair as (x int, y text);
create table k (id int, tt timetz, mr int4multirange, dr daterange, nr numrange, mo mood, md modest, pa pair, mx int[][], ip inet);
insert into k values
    (1, '12:34:56.789+02', '{[1,5),[8,9)}', '[2016-01-01,2020-02-29)', '[1.5,7.25)', 'sad', 5, '(1,a)', '{{1,2},{3,4}}', '10.1.2.3/8'),
    (2, '00:00:00-05', '{}', 'empty', 'empty', 'ok', -7, '(,)', '[0:1][2:3]={{5,NULL},{7,8}}', '192.168.0.1'),
    (3, null, null, null, null, null, null, null, null, null),
    (4, '23:59:59.999999+00', '{(,3),[7,)}', '(,2000-01-01]', '(,0]', 'happy', 0, '(2,"b ""q")', '{{{1},{2}}}', '::1/64'),
    (5, '12:34:56.789+02', '{[2,3)}', '[2020-01-01,2020-01-01]', '[0.50,0.5]', 'sad', 1000000, '(1,a)', '{}', '10.1.2.3'),
    (6, '06:00:00.000001+14', '{(,)}', '(,)', '(,)', 'ok', 5, '(,eng)', '[3:4]={9,8}', '10.255.0.0/16');
create table emp (id int primary key, dept text, name text, salary numeric(10,2), hired date, boss int);
insert into emp values
    (1, 'eng', 'ann', 120.50, '2015-01-10', null), (2, 'eng', 'bob', 100.00, '2016-03-01', 1),
    (3, 'eng', 'cat', 100.00, '2017-05-05', 1), (4, 'ops', 'dan', 80.25, '2015-07-07', 1),
    (5, 'ops', 'eve', null, '2018-08-08', 4), (6, null, 'fay', 55.00, null, 4), (7, 'hr', 'gus', 70.00, '2019-09-09', null);
create table nothing (id int, x text, y numeric(6,1));
create view staff as select e.id, e.name, b.name as chief, e.salary from emp e left join emp b on b.id = e.boss;
create table target (id int primary key, i int, b bigint, num numeric, f8 float8, t text default 'given', o bool default true,
    dt date default '2001-02-03', ts timestamp, tz timestamptz, iv interval, tm time, jb jsonb default '{}', ia int[],
    ta text[], u uuid, bt bytea, r int4range, bi bit(4), tt timetz, mr int4multirange,
    dr daterange, nr numrange, mo mood default 'ok', md modest default 3, pa pair, mx int[], ip inet, g int generated always as (coalesce(i, 0) % 10) stored);
insert into target (id, i, b, num, f8, t, o, dt, ts, tz, iv, tm, jb, ia, ta, u, bt, r, bi,
        tt, mr, dr, nr, mo, md, pa, mx, ip)
    select n.id, i4, i8, num, f8, t, b, dt, ts, tz, iv, tm, jb, ia, ta, u, bt, r, bi,
        tt, mr, dr, nr, mo, md, pa, mx, ip
    from n left join s on s.id = n.id left join d on d.id = n.id left join j on j.id = n.id left join k on k.id = n.id;
create view target_view as select id as k, i, t as words, num, dt, ia, mo, pa from target where i is distinct from 7;
create view checked_view as select id as k, i, t as words, num, dt, ia, mo, pa from target where i > -100 or i is null
    with check option;
