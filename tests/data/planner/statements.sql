-- constants and casts
select 1
select 2147483648
select 9223372036854775808
select 1.5, 1e10, .5, 1.0e-3
select 'x'
select null
select true, false
select -1, - 5, +3, -2147483648
select '1'::int, '1.50'::numeric, '1.5'::numeric(10,1), 'abc'::varchar(2), 'abc'::char(5), 'abc'::bpchar, 'x'::"char", 'x'::name
select int '1', date '2024-01-01', timestamp '2024-01-01', timestamptz '2024-01-01', interval '1 day', time '12:00', numeric '1.5', bool 't', float8 '1.5', uuid 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', bytea '\x00', json '{}', jsonb '{}'
select cast(1 as bigint), cast('1' as smallint), 1::float4, 1::numeric, 1::text, 1::oid, 1::bool
select interval '1' year, interval '1-2' year to month, interval '1 day' day to second(3), interval(3) '1.23456 s'
select '{1,2}'::int[], '{a,b}'::text[], array[1,2], array['a','b'], array[1,2.5], array[null,1], array[array[1,2],array[3,4]]
select array[]::int[]
select array[]
select '2024-01-01'::timestamp(3), now()::timestamp(0), '12:00'::time(2)
select 1::int4::int8::text
select 'abc'::int
select '2024-13-01'::date
select '1'::date
select 1::date
select 'x'::nosuch
select 1::pg_catalog.int4, '1'::pg_catalog.numeric(4,1)
select 'pg_class'::regclass, 'int4'::regtype, 'pg_catalog'::regnamespace
select 'nosuch'::regclass
select 1::numeric(1001)
select 'a'::varchar(0)
select 1::varchar(5), 1.5::int, 1.5::float4, 'x'::text::varchar(3)
select true::int, 1::boolean, 1::smallint::boolean
select '1'::bit(3)
-- operators
select 1+1, 1+1.5, 1+1.5::float8, 1.5+1.5, 2::bigint+1, 2::smallint+1::smallint, 2::real+1, 2::real+1::float8
select 1/2, 1%2, 2^3, |/4, @ -5, 1&2, 1|2, 1#2, ~1, 1<<2, 1>>2
select '1'+1, 1+'1', '1.5'+1.5, 'a'||'b', 'a'||1, 1||'a', 1||1
select '1'+'2'
select 'a'+'b'
select 1+'a'
select 1 || true
select a+b from t
select -b from t
select a||b, b||a, b||c, k||1, 1||k, k||k, x||'y', 'y'||x, x||'{y}'::text[], b||null, null||b from t
select j->'a', j->>'a', j->1, j#>'{a}', j#>>'{a,b}', j@>'{}', j?'a', j||'{}', j-'a', j-1 from t
select d+1, d-1, d-d, d+n, d-n, h-h, h+n, i-i, i+n, n+n, n*2, n*1.5, 2*n, n/2, v+n, v-v, d+v, -n from t
select d = '2024-01-01', h > '2024-01-01', i < d, d < h, n > '1 day', a = '1', c = '1.5' from t
select a = 1.5, l = a, r = a, q = f, c = f, s = c, f = a, q = a, a = 1::bigint from t
select a = b from t
select a = 'x' from t
select b = 1 from t
select b like 'x%', b not like 'x', b ilike 'x', b ~ 'x', b !~ 'x', b ~* 'x', b similar to 'x', b like 'a' escape '\' from t
select e = b, e || b, e like 'x', m = 'x', m = b, m || b, m = e, e = m from t
select a between 1 and 2, a not between 1 and 2.5, a between symmetric 3 and 1, b between 'a' and 'b' from t
select a in (1,2), a in (1), a not in (1,2.5), b in ('x','y'), a in (1,l), (a,b) in ((1,'x'),(2,'y')) from t
select a in ('x') from t
select a in (1,'x') from t
select b in (1,2) from t
select a in (null, 1), null in (1, 2), a in (null) from t
select a = any(k), a = any('{1,2}'), 1 = all(k), a <> all(array[1,2]), b = any(x), b = any(array['x',null]) from t
select a = any(b) from t
select a = any(x) from t
select a = any(1) from t
select l = any(k), a = any(array[1.5]), c > all(array[1,2]) from t
select a is null, a is not null, g is true, g is not false, g is unknown, a is distinct from 1, a is not distinct from null from t
select a is true from t
select not a from t
select g and a from t
select g or 'x' from t
select g and 't', not g, g or null from t
select nullif(a,1), nullif('a','b'), nullif(1,2.5), nullif(b,'x') from t
select coalesce(a,1), coalesce(a,1.5), coalesce(null,null), coalesce('a',b), coalesce(e,b), coalesce(d,h) from t
select coalesce(a,b) from t
select coalesce(a,'x') from t
select greatest(a,1.5), least(b,'x'), greatest(1,2,3), greatest(d,'2024-01-01') from t
select greatest(a,d) from t
select case when g then 1 else 2.5 end, case a when 1 then 'x' when 2 then 'y' end, case when g then a end, case when g then null else 'x' end from t
select case when g then 1 else 'x' end from t
select case when g then a else b end from t
select case when a then 1 end from t
select case a when 'x' then 1 end from t
select case when g then d else h end, case when g then c else 1 end, case when g then e else b end, case when g then e else e end from t
select (a,b), row(a,b,c), row(), (a,b) = (1,'x'), (a,b) < (1,'x'), row(a) = row(1), (a,b) is null, (1,2) is not distinct from (1,2) from t
select (a,b) = (1,2,3) from t
select (a,b) = (1,2) from t
select 1 = row(1)
select a operator(pg_catalog.+) 1, a operator(pg_catalog.=) any (k) from t
select a @@@ 1 from t
select a operator(nosuch.+) 1 from t
select b collate "C", b collate "nosuch" from t
select a collate "C" from t
select b < b collate "C", (b collate "C") || 'x' from t
select i at time zone 'UTC', h at time zone 'UTC', v at time zone 'UTC', i at time zone interval '1 hour' from t
select extract(year from d), extract(epoch from h), date_part('year', i), extract(day from n), extract('hour' from v) from t
select (i,i) overlaps (i,i), (d, d) overlaps (d, n) from t
-- arrays, rows, fields
select k[1], k[1:2], k[:2], k[a], k['1'], x[1], (array[1,2,3])[2], ('{1,2}'::int[])[1] from t
select k['x'] from t
select k[b] from t
select a[1] from t
select j['a'], j['a']['b'], j[1] from t
select t from t
select t.*, u.* from t, u
select (t).a, (t).b from t
select (t.*).a from t
select (t).nosuch from t
select a.b from t
select (a).b from t
select row(1,'x',t.a) from t
-- functions
select now(), current_timestamp, current_date, current_time, localtime, localtimestamp, current_timestamp(3), localtimestamp(2)
select current_user, session_user, user, current_role, current_catalog, current_schema, current_schema(), current_database(), version(), pg_backend_pid()
select length('x'), upper('x'), lower(b), substring(b from 2 for 3), substring(b, 1), substr(b,1,2), position('x' in b), overlay(b placing 'x' from 1), trim(b), trim(leading 'x' from b), trim(both from b), btrim(b), left(b,1), right(b,1), repeat(b,2), replace(b,'x','y'), split_part(b,',',1), strpos(b,'x'), initcap(b), reverse(b), lpad(b,5), rpad(b,5,'x'), md5(b), ascii(b), chr(65), concat(b,1,null), concat_ws(',',b,a), format('%s',a), quote_ident(b), quote_literal(b), quote_literal(a), translate(b,'a','b'), to_hex(a), char_length(b), octet_length(b), starts_with(b,'x') from t
select abs(a), abs(c), abs(f), ceil(c), ceil(f), floor(1.5), round(c), round(c,1), round(f), trunc(c,1), mod(a,2), mod(l,2), power(a,2), power(c,2), sqrt(a), sqrt(c), exp(1), ln(2.0), log(10), log(2,8), sign(a), pi(), random(), div(c,2), width_bucket(f,1,2,3), gcd(a,2), degrees(f), sin(f) from t
select abs('1'), round('1.5'), length(1::text), sqrt('2'), floor('1')
select length(1)
select upper(1)
select nosuch(1)
select nosuch(a, b, 'x', null) from t
select pg_catalog.nosuch(1)
select nosuchschema.f(1)
select length()
select length(b,b) from t
select substring(1 from 2)
select to_char(h,'YYYY'), to_char(a,'999'), to_char(c,'999'), to_char(n,'HH'), to_date('x','y'), to_timestamp('x','y'), to_timestamp(1), to_number('1','9') from t
select date_trunc('day',h), date_trunc('day',i), date_trunc('day',n), date_trunc('day',d), age(h), age(i,i), make_date(1,2,3), make_interval(days => 10), make_interval(1,2), justify_days(n), isfinite(d) from t
select array_length(k,1), array_upper(k,1), cardinality(k), array_append(k,1), array_prepend(1,k), array_cat(k,k), array_remove(k,1), array_replace(k,1,2), array_position(k,1), array_positions(k,1), array_to_string(k,','), string_to_array('a,b',','), array_dims(k), array_ndims(k) from t
select array_append(k,'1'), array_append(k,1.5), array_append(x,'a') from t
select array_append(k,'x') from t
select array_append(a,1) from t
select array_length(a,1) from t
select json_build_object('a',1), jsonb_build_object('a',a,'b',b), to_json(a), to_jsonb(b), row_to_json(t), json_agg(a), jsonb_typeof(j), jsonb_set(j,'{a}','1'), json_array_length(w), jsonb_pretty(j), jsonb_extract_path(j,'a','b') from t group by a, b, t.*, j, w::text, t.w::text
select to_json('x')
select jsonb_build_array(1,'a',null,true), json_build_array()
select regexp_replace(b,'a','b'), regexp_replace(b,'a','b','g'), regexp_match(b,'a'), regexp_split_to_array(b,',') from t
select encode(p,'hex'), decode('00','hex'), sha256(p), get_byte(p,0), p||p, length(p), md5(p) from t
select gen_random_uuid(), o = 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11' from t
select int4(b), text(a), float8(a), varchar(b), date(h), numeric(a), int8('5') from t
select nosuch.* from t
select pg_typeof(a), pg_typeof('x'), pg_typeof(null) from t
select num_nulls(a,b), num_nonnulls(1,'a',null) from t
select a(t), b(t) from t
select count(a) filter (where g), sum(a) over (), row_number() over (order by a), lag(b) over (order by a), lag(a,1,0) over (order by a), first_value(c) over (partition by g order by a), ntile(4) over (order by a) from t group by a, b, c, g
select setseed(0.5), pg_sleep(0), set_config('a.b','c',false), current_setting('TimeZone'), current_setting('x.y', true)
select current_schemas(true), current_schemas(false)
select format_type(23, null), pg_get_expr(null, 1::oid), obj_description(1, 'pg_class'), col_description(1,1), pg_table_is_visible(1), pg_get_userbyid(10), has_table_privilege('t','select'), pg_encoding_to_char(6), pg_get_viewdef(1), pg_get_constraintdef(1), pg_relation_size('t')
select generate_series(1,3), generate_series(1,10,2), generate_series(1.0,3), generate_series(d,d,n) from t
select unnest(k), unnest(x), unnest(array[1,2]), generate_subscripts(k,1) from t
select generate_series(1,2), unnest(array['a','b','c'])
select unnest(1)
select jsonb_array_elements(j), jsonb_object_keys(j), json_array_elements_text(w), regexp_split_to_table(b,','), regexp_matches(b,'a'), string_to_table(b,',') from t
select case when true then generate_series(1,2) end
select a from t where generate_series(1,2) > 1
select coalesce(generate_series(1,2),1)
select count(generate_series(1,2))
select generate_series(1,2)+1, abs(generate_series(1,2)), generate_series(1, generate_series(1,2))
-- aggregates
select count(*), count(a), count(distinct a), sum(a), sum(l), sum(r), sum(c), sum(f), sum(q), sum(n), avg(a), avg(c), avg(f), avg(n), min(a), max(b), min(d), max(e), max(m), stddev(a), variance(c), bool_and(g), bool_or(g), every(g), string_agg(b,','), array_agg(a), array_agg(k), array_agg(b order by a desc), json_agg(t), jsonb_agg(a), jsonb_object_agg(b,a), bit_and(a), corr(f,f) from t
select sum(b) from t
select sum('1') from t
select avg(b) from t
select count() from t
select count(a,b) from t
select sum(distinct a), string_agg(distinct b, ',' order by b), string_agg(distinct b, ',' order by a) from t
select percentile_cont(0.5) within group (order by f), percentile_disc(0.5) within group (order by b), mode() within group (order by a), percentile_cont(array[0.1,0.9]) within group (order by c), rank(1) within group (order by a) from t
select percentile_cont(0.5) from t
select percentile_cont(0.5, f) from t
select sum(a) within group (order by a) from t
select a, count(*) from t
select a+1, count(*) from t group by a
select a+1, count(*) from t group by a+1
select a, b from t group by a
select b, a from t group by b
select a+1 from t group by a+2
select b, c from t group by 1, c
select c as x, count(*) from t group by x
select a as b, count(*) from t group by b
select count(*) from t group by 1
select 1, count(*) from t group by 3
select count(*) from t group by 'x'
select count(*) from t group by 1.5
select sum(count(*)) from t
select sum(sum(a)) over () from t
select sum(a) from t having a > 1
select g, sum(a) s from t group by g having sum(a) > 1 order by s
select g from t having true
select 1 from t having count(*) > 1
select sum(a) from t where sum(a) > 1
select a from t group by sum(a)
select t.a from t join u on sum(t.a) > 1
select a from t limit sum(a)
select a, (select count(*) from u where u.a = t.a) from t group by a
select b, (select count(*) from u where u.a = t.a) from t group by b
select (select sum(t.a) from u limit 1) from t
select (select sum(t.a + u.a) from u) from t
select count(*) from t where exists (select 1 from u having sum(t.a) > 0)
select g, r, count(*), grouping(g), grouping(g,r) from t group by rollup(g,r)
select g, r, count(*) from t group by cube(g,r)
select g, r, count(*) from t group by grouping sets ((g),(r),())
select g, r, c, count(*) from t group by g, rollup(r,c)
select grouping(a) from t group by g
select grouping(a) from t
select lower(b), count(*) from t group by lower(b) order by lower(b), 2 desc nulls last
select distinct a from t order by a
select distinct a from t order by b
select distinct on (a) a, b from t order by a, b
select distinct on (a) a, b from t order by b
select distinct on (1) a, b from t
select distinct w from t
select w from t order by w
select w from t group by w
select count(distinct w) from t
select array_agg(w order by w) from t
select max(w) from t
select a from t order by 2
select a from t order by 'x'
select a from t order by nosuch
select a as x, b as x from t order by x
select a, a from t order by a
select a from t order by a+1, -a, b
select a as q from t order by q+1
-- windows
select row_number() over w, sum(a) over (w rows between 1 preceding and current row), rank() over (w order by a) from t window w as (partition by g)
select sum(a) over (order by a rows unbounded preceding), sum(a) over (order by a range between 1 preceding and 1 following), sum(a) over (order by d range between '1 day' preceding and current row), sum(a) over (order by a groups 2 preceding exclude ties) from t
select sum(a) over (order by b range 1 preceding) from t
select sum(a) over (range 1 preceding) from t
select sum(a) over (groups 1 preceding) from t
select sum(a) over (rows a preceding) from t
select sum(a) over (rows 'x' preceding) from t
select sum(a) over nosuch from t
select sum(a) over (nosuch order by a) from t
select sum(a) over (w partition by a) from t window w as (order by b)
select sum(a) over (w order by a) from t window w as (order by b)
select sum(a) over (w) from t window w as (order by b rows 1 preceding)
select row_number() from t
select a from t where row_number() over () = 1
select sum(row_number() over ()) from t
select row_number() over (order by row_number() over ()) from t
select lag(a) over (partition by sum(a) over ()) from t
select upper(b) over () from t
select count(distinct a) over () from t
select g, sum(sum(a)) over (order by g) from t group by g
select g, rank() over (order by sum(a)) from t group by g
select nth_value(a, 2) over (), last_value(b) over (), lead(b, 2, 'x') over (), cume_dist() over (), percent_rank() over (), dense_rank() over () from t
select a from t group by row_number() over ()
-- from and joins
select * from t
select * from u, "Weird Table"
select * from nosuch
select * from nosuch.t
select * from public.t
select t.a from public.t
select public.t.a from public.t
select public.t.a from t
select contrary.public.t.a from t
select * from a.b.c.d
select x.a from t
select t.a from t as x
select x.a from t as x
select t.* from t as x
select a, nosuch from t
select aa from t
select t.aa from t
select bee from t
select nosuchcolumn from t
select t1.a, t2.a from t t1, t t2
select a from t t1, t t2
select * from t, t
select * from t a join t b using (a)
select x.* from (select 1 as a, 'b' as b) x
select * from (select a, a from t) x
select a from (select a, a from t) x
select * from (select 1)
select * from (values (1,'a'),(2,'b')) v
select * from (values (1,'a'),(2,'b')) v(x,y)
select * from (values (1,'a'),(2,'b')) v(x,y,z)
select * from (values (1,2),(3)) v
select column1 from (values (1),(2.5),(null)) v
values (1,'a'),(2,'b')
values (1,'a'),('x',2)
values (1),('2')
values (null),(null)
values (1),(2) order by 1 limit 1
select * from t join u on t.a = u.a
select * from t join u using (a)
select a from t join u using (a)
select t.a, u.a from t join u using (a)
select * from t left join u using (a, x)
select * from t full join u using (a)
select * from t right join u using (a)
select * from t natural join u
select * from t natural join people
select * from t join u using (b)
select * from t join u on a = 1
select x from t join u on true
select * from t join u using (x)
select * from t cross join u
select j.* from (t join u using (a)) j
select * from (t join u on t.a = u.a) j(c1, c2)
select * from t left join (u join people p on p.id = u.y) on u.a = t.a
select * from t, lateral (select t.a + 1 as z1) l
select * from t, (select t.a + 1) l
select * from t right join lateral (select t.a) l on true
select * from t left join lateral (select u.x from u where u.a = t.a limit 1) l on true
select * from u, t join u u2 on u.a = t.a
select * from t join u on t.a = u.a and nosuch = 1
select * from generate_series(1,3)
select * from generate_series(1,3) g
select g from generate_series(1,3) g
select g.g, g.* from generate_series(1,3) g
select * from generate_series(1,3) as g(x)
select * from generate_series(1,3) with ordinality
select * from generate_series(1,3) with ordinality as g(x,n)
select * from unnest(array[1,2], array['a','b'])
select * from unnest(array[1,2]) as u(x)
select * from t, unnest(t.k) as e
select * from t, unnest(k) e
select e, t.a from t, unnest(t.k) with ordinality as e(v1, o1)
select * from rows from (generate_series(1,2), unnest(array['a'])) as r(x,y)
select * from current_date
select * from current_schema()
select * from lower('X')
select * from abs(-1) as x
select * from jsonb_each('{}')
select * from jsonb_each_text('{}') as j(k1,v1)
select * from jsonb_array_elements('[]')
select * from json_array_elements('[]') x
select * from pg_get_keywords()
select * from json_to_record('{}') as x(a int, b text)
select * from json_to_record('{}')
select * from json_each('{}') as x(a int)
select * from sum(1)
select * from generate_series(1, generate_series(1,2))
select * from t tablesample system (10)
select * from v1
select * from v2
select total, bee from v1 where a = 1
select * from empty
select
select from t
select *
-- subqueries
select (select 1), (select b from t limit 1), (select null), (select a from t where t.a = u.a) from u
select (select 1, 2)
select exists (select 1 from t), not exists (select * from t)
select a in (select a from u), a not in (select y from u), (a,b) in (select y, x from u), a = any (select a from u), a > all (select y from u) from t
select a in (select x from u) from t
select a in (select a, x from u) from t
select (a,b) in (select a from u) from t
select (a,b) = (select 1, 'x') from t
select array(select a from t), array(select b from t order by 1), array(select k from t)
select array(select 1, 2)
select a from t where a = (select max(a) from t)
select (select t.a) from t
select (select x.a from u limit 1) from t x
select nosuch in (select 1) from t
select 'x' in (select b from t), null in (select a from t)
-- set operations
select 1 union select 2
select 1 union select 1.5
select 1 union all select 'x'
select 'x' union select 'y'
select 'x' union select 1
select null union select null union select 1
select a from t union select b from t
select a, b from t union select a from t
select 1 as x, 'a' as y union all select 2, 'b' order by x, y desc
select 1 as x union select 2 order by x + 1
select 1 as x union select 2 order by nosuch
select 1 as x union select 2 order by 2
select a from t intersect select y from u except select 1
(select 1 union select 2) except (select 3 limit 1) limit 5
select e from t union select e from t
select e from t union select b from t
select c from t union all select s from t
select c from t union all select c from t
select d from t union select h from t
select w from t union select w from t
select w from t union all select w from t
select null union all select 'a'
select 1 intersect all select 2::bigint
select * from (select 1 as a union select 2) x where a = 1
select 1 union select 2 for update
-- with
with x as (select 1 as a) select * from x
with x(b) as (select 1 as a) select b from x
with x(b,c) as (select 1 as a) select b from x
with x as (select 1), x as (select 2) select 1
with x as (select 1 as a), y as (select a+1 as b from x) select * from x, y
with recursive r(n) as (select 1 union all select n+1 from r where n < 10) select n from r
with recursive r(n) as (select 1 union all select n+1.5 from r) select n from r
with recursive r(n) as (select 1 union select n+1 from r) select n from r limit 5
with recursive r as (select 1 as n union all select n+1 from r), s as (select * from r) select * from s
with recursive r as (select * from r) select 1
with recursive r(n) as (select n from r union select 1) select 1
with recursive r(n) as (select 'a' union all select n || 'b' from r) select n from r
with recursive r(n) as (values (1) union all select n+1 from r) select sum(n) from r
with x as (select a from t) select (select count(*) from x), * from x
with t as (select 'shadow' as s) select * from t
with x as (select a, b from t) select x.a from x join x y using (a)
with x as materialized (select 1 as a), y as not materialized (select 2 as b) select * from x, y
with x as (select 1) select * from nosuch
-- limit
select a from t limit 5 offset 2
select a from t limit null
select a from t limit all
select a from t limit '5'
select a from t limit 'x'
select a from t limit 1.5
select a from t limit a
select a from t limit true
select a from t order by a fetch first 3 rows only
select a from t order by a fetch first 3 rows with ties
select a from t fetch first row only
select a from t for update
select a from t for share of t
select a from t for update of nosuch
select distinct a from t for update
select count(*) from t for update
-- parameters
select $1
select $1::int
select $1 + 1
select $1 + 1.5, 1 + $2
select a = $1, b = $2, c > $3, d = $4, e = $5, k = $6, j = $7 from t
select $1 || $2
select $1 || b, k || $2 from t
select coalesce($1, 1), coalesce($2, 'x'), coalesce($3, b) from t
select case when $1 then 1 else $2 end
select a from t where a in ($1, $2) and b in ($3)
select a from t where a = any($1) and b = any($2)
select a from t where a = any($1::bigint[])
select a from t limit $1 offset $2
select a from t where b like $1 and d between $2 and $3
select $2::int
select $1::int, $1::text
select $1, $1::int
select $1 + $2
select $1 = $2
select length($1), upper($2), abs($3::int)
select abs($1)
select $1 is null
select to_char($1, 'x')
select to_char($1::date, $2)
select extract(year from $1::date), date_trunc($1, now())
select array[$1, 2], array[$2::text]
select ($1, 2) = (1, $2)
select * from generate_series(1, $1)
select generate_series($1::int, $2)
select sum($1::int), string_agg($2, ',')
select not $1, $2 and true
select nullif($1, 2), greatest($2, 1.5)
select (select $1::int), exists (select 1 where $2 = 1)
select 1 union select $1
select $1 union select $2
values ($1, 2), (3, $2)
select d + $1, h - $2, $3 + n from t
select d - $1::date, i + $2 from t
select $1 collate "C" < 'x'
select $0
select round($1, 2), power($2, 2)
select concat($1, 'x')
select format('%s', $1)
select json_build_object('a', $1)
select row($1, 2)
select k[$1] from t
select a from t where ($1 is null or a = $1)
select a from t where ($1::int is null or a = $1)
select a from t order by $1
select a from t group by a, $1
select interval '1 day' * $1, $2 * interval '1 day'
-- insert, update, delete
insert into u values (1, 'x')
insert into u values (1, 'x', 2, 3.5), (2, 'y', default, null)
insert into u values (1, 'x', 2, 3.5, 4)
insert into u (a, x) values (1)
insert into u (a) values (1, 2)
insert into u (a, nosuch) values (1, 2)
insert into u (a, a) values (1, 2)
insert into u (a) values ('x')
insert into u (x) values (1)
insert into u (a) values (1.5)
insert into u (a) values (true)
insert into u (a) values ('2024-01-01'::date)
insert into u (y) select a from t
insert into u (y) select b from t
insert into u select 1, 'x'
insert into u select 1, 2, 3, 4, 5
insert into u (a, x) select null, null
insert into u default values
insert into u (a) values ($1), ($2 + 1)
insert into u values ($1, $2, $3, $4)
insert into people values ($1, $2, $3, $4, $5, $6) returning id, upper(name) as n, *
insert into u (a) select $1
insert into u values (1) returning a + 1, x, u.*, tableoid
insert into u as uu values (1) returning uu.a, u.a
insert into u values (1) returning nosuch
insert into u values (1) returning count(*)
insert into nosuch values (1)
insert into pg_class values (1)
insert into people (name) values ('a very long name that does not fit')
insert into u (a) values (sum(1))
insert into u (a) values (u.a)
insert into u (z) values (1.25), ('3'), (4), ($1)
insert into u with x as (select 1 as a) select a from x
with x as (select 1 as a) insert into u select a from x
insert into u (a) values ((select max(a) from t))
insert into people (tags) values (array['a']), ('{b}'), (null)
insert into people (salary) values (12345678.999)
update u set a = 1
update u set a = a + 1, x = upper(x) where y > 5
update u set a = default, y = default
update u set a = 'x'
update u set a = x
update u set y = a
update u set nosuch = 1
update u set a = 1, a = 2
update u set (a, x) = (1, 'y')
update u set (a, x) = (select 1, 'y')
update u set (a, x) = (select a, b from t where t.a = u.a)
update u set (a, x) = (1, 2, 3)
update u set (a, x) = row(default, 'z')
update u set a = t.a from t where t.l = u.a
update u set a = t.l from t where t.a = u.y returning u.a, u.x
update u x set a = x.a + 1 where x.y = 1
update u set u.a = 1
update u x set a = u.a
update u set a = $1 where x = $2 and y = $3
update u set a = sum(a)
update u set a = 1 where nosuch = 1
update nosuch set a = 1
update u set a = 1 returning *
update people set name = $1, born = $2, tags = $3 where id = $4 returning id
update u set z = z * 1.1, x = null
delete from u
delete from u where a = 1
delete from u where a = $1 returning *
delete from u using t where t.a = u.y
delete from u x using t where t.a = x.y and u.a = 1
delete from nosuch
delete from u where nosuch
delete from u where a
delete from u where sum(a) > 1
with x as (select 1 as a) delete from u where a in (select a from x)
with x as (delete from u returning *) select * from x
insert into u values (1) on conflict do nothing
-- catalogs
select oid, relname, relkind, tableoid, xmin from pg_class
select * from pg_namespace
select c.relname, a.attname, format_type(a.atttypid, a.atttypmod) from pg_class c join pg_attribute a on a.attrelid = c.oid where c.relname = 't'
select oid::regclass, relname::text, 'x'::name || relname from pg_class where oid = 't'::regclass
select relacl, reloptions, relacl[1] from pg_class
select table_name, column_name, ordinal_position from information_schema.columns
select indkey[0], indkey[0:1], indkey::int2[], indclass[0] from pg_index
select conkey[1], conkey from pg_constraint where contype = 'f'
select typname = 'x', typtype = 'b', typcategory in ('A','B'), typlen > 0, typdefault is null from pg_type
select proargtypes[0], proargtypes::oid[], proargtypes::text, proallargtypes from pg_proc
select nspname || '.' || relname from pg_class c, pg_namespace n where n.oid = relnamespace
select count(*) from pg_class where relname ~ '^pg_' and relkind = any (array['r','v'])
select unnest(conkey), generate_subscripts(conkey, 1) from pg_constraint
select (information_schema._pg_expandarray(i.indkey)).n from pg_index i
select (x).n, (x).x from (select information_schema._pg_expandarray(i.indkey) as x from pg_index i) s
select case c.relkind when 'r' then 'table' when 'v' then 'view' end as "Type", c.relname || 'x' from pg_class c
select d.description from pg_class c left join pg_description d on d.objoid = c.oid and d.classoid = 'pg_class'::regclass and d.objsubid = 0
select greatest(relname, 'x'), coalesce(relname, 'x'), nullif(relname, 'x'), relname like 'x%', lower(relname), relname = 'x'::text from pg_class
select oid = 1, oid > 1, oid = '1', oid::int, 1::oid = oid, oid in (1,2) from pg_class
select atttypid::regtype, atttypid::regtype::text, attrelid::regclass = 'pg_class'::regclass from pg_attribute
select current_setting('server_version_num')::int >= 150000
select pg_get_userbyid(relowner) = current_user from pg_class
select setting from pg_settings where name = 'TimeZone'
select array_agg(relname order by relname), string_agg(relname, ','), max(relname), min(oid) from pg_class
select relname from pg_class order by 1 collate "C"
select "Col A", "select" from "Weird Table"
select Col A from "Weird Table"
select "a" as "A b", a "é", 'é' || nosuch from t
select 'é', nosuch from t
select /* é */ nosuch from t
-- syntax errors
selct 1
select 'a
select 1 +
select "a
select * from
select 1 from t where
select a b c from t
insert into t values
update t set
delete t
select $$a
select 1 as select
select (1
select 1)
select a from t order
select case end
select e'\q\u00'
select U&'\00'
create table x (a int,)
select count(distinct) from t
select 1 union
with select 1
select * from t join u
select * from t limit 1 limit 2
select interval 1 day
select 'é' +
-- more names
select t.*, t.a from t order by t.a, b desc nulls first
select x.a as y from t as x order by y
select x.a as y from t as x where y = 1
select a as y from t group by y having y > 1
select upper(b) as b from t order by b
select -a as a from t order by -a
select a from t order by t.a
select a as b, b as a from t order by a, t.b
select count(*) as count from t order by count
select count(*) from t order by count
select sum(a) as a from t group by b order by a
select max(a) as m from t group by g having max(a) > 1 order by m desc, g
select t.a, u.a as ua from t left join u on u.a = t.a where u.a is null order by ua
select (select a), a from t
select (select b from u) from t
select (select max(u.a) from u where u.y = t.a and u.x = outerx) from t
select * from (select a, count(*) as n from t group by a) s where n > 1
select s.n from (select count(*) n from t) s, lateral (select s.n + 1 as m) q where q.m > 1
select * from (select * from t) as q(x)
select q.x, q.b from (select * from t) as q(x)
select * from (values (1, 'one'), (2, 'two')) as v (id, name) join t on t.a = v.id
select v.* from t, lateral (values (t.a, t.b), (1, 'x')) v(p, q)
select t.a from t where (t.a, t.b) in (select u.y, u.x from u)
select 1 from t where a in (select y from u where u.a = t.l group by y having count(*) > 1)
select 1 where exists (select * from t where t.a = 1)
select not exists (select 1)
select a from t where not a in (1, 2) and not (b like 'x%') or g
select a from t where g = true and (g is not true) = false
select * from t t1 left join t t2 on t1.a = t2.a left join t t3 using (a)
select * from t t1 join t t2 using (a) join t t3 using (a)
select a from t t1 join t t2 using (a) join t t3 using (b)
select count(*) from t t1, t t2, t t3 where t1.a = t2.a and t2.a = t3.a
select t.nosuch, u.* from t join u on true
select t.a from t, u where t.a = v.a
select distinct on (t.a, lower(b)) t.a, lower(b), c from t order by t.a, lower(b), c desc
select distinct a, b from t order by 2, 1
select distinct a + 1 from t order by a + 1
select distinct a from t order by a + 1
select all a from t
select a from t offset 1 row fetch next 2 rows only
select a from only t
table t
table u order by a limit 1
select tableoid, t.tableoid from t
select ctid from t
select t.oid from t
-- more types
select 1::int2 + 1::int2, 1::int2 * 1::int4, 1::int2 / 1::int8, 1::int2 % 1::int2, - 1::int2, 1::int2 + 1.5, 1::int8 + 1::float4
select 1 = 1.0, 1::float4 = 1.0, 1 = 1::float8, 1.0 = 1::float8, 1::int2 = 1::int8
select '1' = 1, 1.0 = '1', '2024-01-01' < now(), date '2024-01-01' = '2024-01-01', 'a' = 'b'
select null = null, null + 1, 1 + null, null || 'a', null is null, -null
select 1 < null, null and true, null or null, not null
select 2 ^ 3, 2.0 ^ 3, 2 ^ 0.5, 2::numeric ^ 3, 5 % 3, 5.5 % 2, 7 / 2, 7 / 2.0, 7.0 / 2
select '10' / 2, 10 / '2', '10' * '2'::int
select date '2024-01-01' + 1, date '2024-01-01' + interval '1 day', date '2024-01-01' + time '10:00', date '2024-01-01' - date '2023-01-01', timestamp '2024-01-01' - timestamp '2023-01-01', time '10:00' + interval '1 hour', interval '1 day' + interval '1 hour', interval '1 day' * 2, interval '1 day' / 2, 2 * interval '1 day', now() - interval '1 day', now() - now(), now()::date - 1, current_date - 7, current_date + interval '1 month'
select date '2024-01-01' - '2023-01-01', date '2024-01-01' - '1 day', now() - '1 day', now() - '2024-01-01', date '2024-01-01' + '1 day'
select date '2024-01-01' > timestamp '2024-01-01', date '2024-01-01' = timestamptz '2024-01-01', timestamp '2024-01-01' < timestamptz '2024-01-01'
select date '2024-01-01' + date '2024-01-01'
select date '2024-01-01' + 1.5
select interval '1 day' * 1.5, interval '1 day' * '2', interval '1 day' > '1 hour', - interval '1 day'
select 'a' < 'b', 'a' || 'b' || 1, 1 || 'a' || 2, 'a' || null, 'a' || true, 'a' || 1.5, 'a' || now(), 'a' || array[1]
select 'a'::text || array['b'], array['a'] || 'b'::text, array[1] || 2, 1 || array[2], array[1] || array[2.5], array[1] || null, array[1,2] || '{3}'
select array[1,2] = array[1,2], array[1,2] < '{3}', array[1,2] @> array[1], array[1,2] && '{1}', array[1] <@ array[1,2], array[1.5] @> array[1]
select array['a','b']::varchar[] @> array['a'], array['a']::text[] @> array['a']::varchar[]
select array[1,2]::bigint[], array[1,2]::text[], '{1,2}'::text[]::int[], array['1','2']::int[], array[1,null]::numeric(5,2)[]
select array[[1,2],[3,4]][1][2], array[[1,2],[3,4]][1], (array[1,2,3])[2:3], (array['a'])[1] || 'b'
select array[1,'2'], array['a', 1]
select array[1, true]
select array[1, 'x']
select array[date '2024-01-01', timestamp '2024-01-01'], array[1, 2.5, 3::float8]
select array_agg(array[a]) from t
select array(select array[1,2])
select bool '1', bool 'yes', 'f'::bool and true, true = 't', true > false, true::text, true || 'x', 1::bool::int
select bool 'maybe'
select true + 1
select true = 1
select 1 and true
select 'x'::varchar(3) || 'y', 'x'::char(3) || 'y', length('x'::char(3)), 'x'::char(3) = 'x', 'x'::char(3) = 'x  '::text, upper('x'::varchar(3)), 'x'::char(3) like 'x'
select substring('abc' from 2), substring('abc' for 2), substring('abc' from 'b'), substring('abc' similar 'b' escape '#'), substring('\x01'::bytea from 1)
select position('a' in 'b'), strpos('a','b'), trim('  x '), trim('x' from 'xax'), ltrim('x'), rtrim('xa','a'), overlay('abc' placing 'x' from 2 for 1)
select extract(epoch from now()), extract(dow from date '2024-01-01'), extract(quarter from timestamp '2024-01-01'), extract(microseconds from time '10:00'), date_part('epoch', now()), date_part('day', interval '1 day')
select extract(nosuch from now())
select extract(day from 'x')
select extract(day from 1)
select date_trunc('month', date '2024-01-01'), date_trunc('month', '2024-01-01'), date_trunc('month', timestamp '2024-01-01')
select to_char(1.5, '9.9'), to_char(1, '9'), to_char(now(), 'Y'), to_char(interval '1 day', 'D'), to_char(date '2024-01-01', 'YYYY'), to_char('x', 'y')
select round(1.5), round(1.5::float8), round(1), round(1.55, 1), round(1.5::float8, 1)
select ceil(1), floor(1.5), trunc(1.5), trunc(1.55, 1), abs(-1), abs(-1.5), abs('-1'), sign(-1), sign(1.5), mod(5, 3), mod(5.5, 2), mod(5::int8, 3), power(2, 3), power(2.0, 3), sqrt(4), sqrt(4.0), cbrt(8), exp(1), exp(1.0), ln(1), ln(1.0), log(10), log(10.0), log(2, 8), pi(), degrees(1), radians(1), sin(1), atan2(1, 2), random(), width_bucket(5, 0, 10, 5), gcd(4, 6), lcm(4, 6), factorial(5), div(7, 2), scale(1.50), min_scale(1.50), trim_scale(1.50)
select greatest(1, 2.5, 3::float8), greatest('a', 'b'), greatest(null, 1), greatest('1', 2), least(now(), '2024-01-01'), greatest(date '2024-01-01', timestamp '2024-01-01')
select greatest(1, 'x')
select coalesce(null, 1), coalesce(null, null, 'x'), coalesce(1, null), coalesce('1', 2), coalesce(now(), '2024-01-01'), coalesce(null::int, 1.5), coalesce(1::int2, 1::int8), coalesce('a'::varchar(3), 'b'::text), coalesce('a'::varchar(3), 'b'::varchar(3)), coalesce('{}'::int[], array[1])
select coalesce(1, now())
select nullif('', ''), nullif(1, null), nullif(null, 1), nullif(1.5, 1), nullif('a'::varchar, 'b')
select case 1 when 1 then 'a' else 'b' end, case when true then 1 when false then 2.5 end, case when true then null else 1 end, case when true then '1' else 2 end, case when false then 'a'::varchar(3) else 'b'::varchar(3) end, case 'a' when 'b' then 1 end, case null when 1 then 2 end
select case 1 when '1' then 2 end, case '1' when 1 then 2 end
select case when true then 1 else now() end
select case when 'x' then 1 end
select case when null then 1 end, case when 't' then 1 end
select row(1, 2) = row(1, 2), row(1, 'a') < row(2, 'b'), (1, 2) in ((1, 2), (3, 4)), (1, 'a') is not null, row(1, null) is null, (1, 2) between (1, 1) and (2, 2)
select row(1, 2) = row(1, 'x')
select row(1, 2) + row(1, 2)
select row(1,2).f1, (row(1,2)).f1, (row(1, 'x')).f2
select (row(1,2)).f3
select '1'::xid, '1'::cid, '(0,1)'::tid, '1.2.3.4'::inet, '{1,2}'::oidvector::oid[], '[1,2)'::int4range, '<a/>'::xml, '1'::money, '08:00:2b:01:02:03'::macaddr, '(1,2)'::point, B'101', X'1F', '101'::varbit, 'a b'::tsvector
select jsonb '{"a":1}' -> 'a', jsonb '{"a":1}' ->> 'a', json '{"a":1}' -> 'a', jsonb '[1]' -> 0, jsonb '{"a":1}' #> '{a}', jsonb '{}' || '{}', jsonb '{"a":1}' - 'a', jsonb '[1]' - 0, jsonb '{}' @> '{}', jsonb '{}' ? 'a', jsonb '{}' ?| array['a'], jsonb '{}' = '{}', jsonb '{}' < jsonb '[]'
select json '{}' = json '{}'
select jsonb '{}' -> 1.5
select (jsonb '1')::int, (jsonb '"a"')::text, (jsonb 'true')::bool, json '{}'::jsonb, jsonb '{}'::json, '{}'::text::jsonb, 1::text::json, (jsonb '1.5')::numeric(4,2)
select (json '1')::int
select 'abc' ~ 'b', 'abc' !~* 'B', 'abc' like '_b%', 'abc' similar to '(a|b)%', 'abc' like 'a!%' escape '!', 'abc' not ilike 'B', 'abc' ^@ 'a', 'a' like any (array['a','b']), 'a' ~~ all ('{a}')
select 1 like '1'
select 1 in (1, null), 1 in (1.0, 2), '1' in (1, 2), 1 in ('1', '2'), 'a' in ('a', 'b'), null in (null), now() in ('2024-01-01'), 1 in (select 1), 1 not in (select null)
select 1 in (now())
select 1 = any (array[1, 2]), 1 = any ('{1,2}'), 1.5 = any (array[1]), 1 = any (null), '1' = any (array[1]), 'a' = any (array['a'::varchar]), 1 < all (array[1.5]), 'a'::name = any (array['a'])
select 1 = any (array['a'])
select 1 + any (array[1])
select 1 = any (select 1.5), 1 = any (values (1), (2)), (1, 2) = any (select 1, 2), 1 <> all (select 'x'::text)
select sum(1), sum(1.5), sum(1::float4), avg(1), avg(1.5::float8), min('a'), max(null), count(null), sum('1'::int2), sum(null::int), array_agg(null), array_agg('a'), string_agg('a', ','), min(now()), max(interval '1 day'), bool_and(true), json_agg(1), every(false), stddev(1.5), var_pop(1), regr_slope(1, 2), bit_or(1::int8)
select sum(null)
select min(true)
select max(array[1]), max('{}'::jsonb)
select string_agg(1, ',')
select array_agg(distinct a order by a), string_agg(b, ',' order by a, b), array_agg(row(a, b)) from t
select count(*) filter (where a > 1), sum(c) filter (where b like 'x'), count(distinct b) filter (where null) from t
select count(*) filter (where a) from t
select count(*) filter (where sum(a) > 1) from t
select upper(b) filter (where true) from t
select a, count(*) over (partition by b order by c rows between unbounded preceding and 1 following exclude current row), sum(c) over w / sum(c) over (), avg(a) over w, array_agg(b) over w, rank() over w from t window w as (partition by g order by a desc nulls last)
select rank() over (order by a), percent_rank() over (partition by b), ntile(3) over (), lead(c) over (), lag(c, 1, 0) over (), lag(a, 1, 1.5) over (), lag(b, a) over (), first_value(d) over (), nth_value(b, 1) over () from t
select lag(a, 'x') over () from t
select ntile('3') over () from t
select rank() filter (where true) over () from t
select sum(a) over (order by a range between '1' preceding and current row), sum(a) over (order by c range 1.5 preceding), sum(a) over (order by f range 1 preceding), sum(a) over (order by i range '1 day' preceding), sum(a) over (order by n range '1 day' preceding), sum(a) over (order by v range '1 hour' preceding) from t
select sum(a) over (order by d range 1 preceding) from t
select sum(a) over (order by a range 'x' preceding) from t
select generate_series(1, 3) as g, a from t order by g, a limit 5
select a, generate_series(1, a) from t where a < 3 order by 2
select generate_series(1, 2) + unnest(array[1, 2]), count(*) from t group by 1
select max(x) from (select generate_series(1, 3) as x) s
select distinct unnest(k) from t
select sum(unnest(k)) from t
select unnest(array_agg(a)) from t
select array_agg(u) from t, unnest(k) u group by a
select a, u from t cross join lateral unnest(k) as u where u > 1
select * from t left join lateral unnest(k) with ordinality as e(v1, n1) on true
select x, y1 from unnest(array[1,2,3], array['a','b']) as z(x, y1)
select * from generate_series(date '2024-01-01', date '2024-01-05', '1 day')
select * from generate_series(timestamp '2024-01-01', '2024-01-05', '1 day') as g(day)
select g::date from generate_series('2024-01-01'::timestamptz, now(), interval '1 day') g
select extract(year from g), count(*) from generate_series(1, 3) x, generate_series(now(), now(), '1 day') g group by 1
select regexp_matches('abc', 'b'), regexp_split_to_table('a,b', ',') as part, string_to_table('a b', ' ')
select * from regexp_matches('abc', 'b', 'g') as m
select m[1] from regexp_matches('abc', 'b') m
select key, value from jsonb_each('{"a":1}'), jsonb_array_elements('[1]') as x(elem)
select e ->> 'a' from jsonb_array_elements('[{"a":1}]') e
select t.a, e.key, e.value from t, jsonb_each_text(t.j) e
select * from pg_options_to_table(array['a=b'])
-- TPC-H and reports
select g, r, sum(a) as sum_qty, sum(c) as sum_base, sum(c * (1 - c)) as disc, sum(c * (1 - c) * (1 + c)) as charge, avg(a) as avg_qty, avg(c) as avg_price, count(*) as count_order from t where d <= date '1998-12-01' - interval '90' day group by g, r order by g, r
select a, sum(c * (1 - s)) as revenue, d from t, u where t.a = u.y and d < date '1995-03-15' group by a, d order by revenue desc, d limit 10
select extract(year from d) as yr, sum(case when b = 'BRAZIL' then c else 0 end) / sum(c) as share from t group by yr order by yr
select 100.00 * sum(case when b like 'PROMO%' then c * (1 - s) else 0 end) / sum(c * (1 - s)) as promo from t
select b, count(*) as n from (select b, count(*) as cnt from t group by b) as q group by b having count(*) > (select avg(a) from t) order by n desc, b
with revenue (no, total) as (select a, sum(c) from t where d >= date '1996-01-01' and d < date '1996-01-01' + interval '3' month group by a) select u.a, total from u, revenue where u.a = no and total = (select max(total) from revenue) order by u.a
select sum(c) / 7.0 as avg_yearly from t where a < (select 0.2 * avg(y) from u where u.a = t.a)
select b, sum(c) over (partition by b order by d rows between unbounded preceding and current row) as running, c - lag(c) over (partition by b order by d) as delta, round(100.0 * c / sum(c) over (partition by b), 2) as pct from t
select date_trunc('month', h) as month, count(distinct b) as users, percentile_cont(0.5) within group (order by c) as median from t group by 1 order by 1
select coalesce(b, 'total') as label, sum(c), grouping(b) from t group by rollup (b) order by grouping(b), label
select b, jsonb_object_agg(a, c) filter (where c is not null), json_agg(json_build_object('a', a, 'b', b) order by a) from t group by b
select a, row_number() over (partition by b order by c desc) as rn from t qualify rn = 1
select * from (select *, row_number() over (partition by b order by c desc) as rn from t) x where rn <= 3
with recursive tree as (select a, b, 0 as depth, array[a] as path from t where l is null union all select c.a, c.b, p.depth + 1, p.path || c.a from t c join tree p on c.l = p.a where not c.a = any (p.path)) select * from tree order by path
with daily as (select d, sum(c) as total from t group by d), ranked as (select *, rank() over (order by total desc) as rk from daily) select * from ranked where rk <= 10
select string_agg(b, ', ' order by b), to_char(sum(c), 'FM999,999.00'), count(*)::text || ' rows' from t
select nullif(trim(b), '') is null as empty, length(b) > 3 and b ~ '^[a-z]+$' as word, split_part(b, ' ', 1) as first from t
