begin isolation level serializable, read only
start transaction
commit and chain
end
rollback to savepoint a
release savepoint a
prepare transaction 'x'
set transaction isolation level read committed
set session characteristics as transaction read write
set search_path to a, "B c", public
set time zone 'UTC'
set time zone interval '-08:00' hour to minute
set time zone default
set local extra_float_digits = 3
set datestyle to iso, mdy
set foo.bar = on
set names 'utf8'
reset all
reset datestyle
show all
show time zone
show transaction isolation level
discard all
discard temp
create table if not exists s.t (a int primary key, b varchar(10) not null default 'x', c numeric(10,2) default 1+2, d serial, e text check (e <> ''), f int references o(id), g bigint generated always as identity, h timestamptz default now(), unique(a,b), constraint cc check (a>0))
create temp table x (a int[] , b char(3)[], c interval year to month, d timestamp(3)) on commit drop
create table x (like y including all)
create table a as select 1
create table a(b,c) as values (1,2) with no data
create materialized view mv as select 1
create or replace view v(a) as select 1
create schema if not exists foo authorization bar
create schema foo create table t (a int)
drop table if exists a.b, c cascade
drop schema s
drop view v
drop index i
alter table t add column x int not null default 5, drop column if exists y cascade, alter z set default 4, alter z drop default, alter z set not null, alter z type bigint using z::bigint, owner to current_user
alter table t add constraint c primary key (a)
alter table t rename to u
alter table t rename column a to b
alter view v rename to w
alter table t set schema s
alter schema s rename to s2
alter schema s owner to bob
truncate a, b restart identity cascade
copy t from stdin
copy t (a,b) from stdin with (format csv, header match, force_not_null (a))
copy t to stdout csv header
copy t from stdin with delimiter '|' null as ''
copy (select 1) to stdout (format binary)
copy t from '/x' with binary
explain (analyze, verbose, format json, costs off) select 1
explain select 1
prepare p(int, text) as select $1, $2
execute p(1, 'a')
deallocate all
deallocate prepare p
declare c binary insensitive no scroll cursor with hold for select 1
fetch 5 from c
fetch all c
fetch backward all in c
move absolute 3 c
fetch prior from c
fetch c
close all
close c
listen x
notify x, 'y'
unlisten *
lock table a, b in share mode nowait
lock a
vacuum
vacuum (full, analyze) a
analyze a
checkpoint
cluster
reindex table t
comment on table t is 'x'
comment on column s.t.c is null
comment on database d is 'x'
grant select, insert(a) on t to bob, public
revoke all on all tables in schema s from bob
grant r to bob
create database d template template0 encoding 'utf8'
drop database if exists d with (force)
create user u with superuser password 'x'
alter role u nologin
drop role if exists a, b
do $$ begin end $$
set constraints all deferred
create index on t(a)
create unique index concurrently i on t(lower(a), b desc)
create sequence s start 5 increment by -1 owned by t.a
alter sequence s restart with 3
alter database d set x = 3
alter role r reset all
alter system set a = 5
call f(1)
refresh materialized view concurrently x
create trigger t before insert on a for each row execute function f()
merge into t using s on t.a=s.a when matched then delete
create function f() returns int language sql as 'select 1'
create type m as enum ('a')
create extension foo
alter default privileges in schema s grant select on tables to x
alter table t alter a set statistics 3
set role x
set session authorization default
security label on table t is 'x'
load 'x'
set transaction snapshot 'x'
create table x (a int, a text)
create table x (a int primary key, b int primary key)
create table x (a int, primary key (b))
create table x (a nosuch)
create table x (a int null not null)
create table x (a int default 1 default 2)
create table x (a serial default 1)
create table x (a int generated always as (b * 2) stored)
create table x (a text generated always as identity)
create table x (a int) partition by range (a)
create table x () inherits (y)
create table x (a varchar(0))
create table x (a numeric(40,2))
create table x (a anyelement)
copy t from stdin (format nosuch)
copy t from stdin (format csv, format text)
copy t from stdin (delimiter 'ab')
copy t to stdout (header match)
copy t from stdin (quote '"')
copy t from stdin (nosuch true)
copy t from stdin (force_quote (a), format csv)
explain (nosuch) select 1
explain (format nosuch) select 1
explain (timing) select 1
explain (analyze maybe) select 1
vacuum (nosuch) t
create role x login login
declare c scroll no scroll cursor for select 1
prepare p(nosuch) as select 1
comment on table t is ''
select 1 into x
select a, count(*) into temp y from t group by a
DROP STATISTICS IF EXISTS s
ALTER TABLE t NOT OF
