select n.nspname, c.relname, c.relkind, c.relpersistence, c.relnatts, c.relchecks, c.relhasrules,
    c.relrowsecurity, c.relreplident, c.relispopulated, c.reloptions, obj_description(c.oid, 'pg_class') as said
from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname in ('made', 'other');

select c.oid::regclass, a.attname, a.attnum, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.atthasdef, a.attidentity,
    a.attgenerated, a.attisdropped, a.attstattarget, a.attcollation::regcollation, a.attndims, a.attlen, a.attislocal,
    pg_get_expr(d.adbin, d.adrelid), col_description(c.oid, a.attnum)
from pg_class c join pg_namespace n on n.oid = c.relnamespace join pg_attribute a on a.attrelid = c.oid
    left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
where n.nspname in ('made', 'other') and a.attnum > 0 and c.relkind <> 'i';

select conname, contype, conrelid::regclass, contypid::regtype, conindid::regclass, confrelid::regclass, condeferrable,
    condeferred, convalidated, conkey, confkey, confupdtype, confdeltype, confmatchtype, connoinherit,
    pg_get_constraintdef(o.oid), obj_description(o.oid, 'pg_constraint')
from pg_constraint o join pg_namespace n on n.oid = o.connamespace where n.nspname in ('made', 'other');

select indexrelid::regclass, indisunique, indisprimary, indisexclusion, indimmediate, indisvalid, indnullsnotdistinct,
    indkey, indoption, indnatts, indnkeyatts, pg_get_indexdef(indexrelid), pg_get_expr(indpred, indrelid)
from pg_index i join pg_class c on c.oid = i.indexrelid join pg_namespace n on n.oid = c.relnamespace
where n.nspname in ('made', 'other');

select c.oid::regclass, pg_get_viewdef(c.oid), pg_get_viewdef(c.oid, true), pg_relation_is_updatable(c.oid, false)
from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname in ('made', 'other') and relkind in ('v', 'm');

select t.oid::regtype, typtype, typcategory, typnotnull, typdefault, typlen, typbyval, typndims, typbasetype::regtype,
    typarray::regtype, typelem::regtype, typrelid::regclass, array(select enumlabel::text from pg_enum e where e.enumtypid = t.oid
    order by enumsortorder), obj_description(t.oid, 'pg_type')
from pg_type t join pg_namespace n on n.oid = t.typnamespace where n.nspname in ('made', 'other');

select seqrelid::regclass, seqtypid::regtype, seqstart, seqincrement, seqmax, seqmin, seqcache, seqcycle
from pg_sequence join pg_class c on c.oid = seqrelid join pg_namespace n on n.oid = c.relnamespace
where n.nspname in ('made', 'other');

select p.oid::regprocedure, pg_get_functiondef(p.oid), obj_description(p.oid, 'pg_proc')
from pg_proc p join pg_namespace n on n.oid = p.pronamespace where n.nspname in ('made', 'other');

select distinct pg_describe_object(classid, objid, objsubid) as what, pg_describe_object(refclassid, refobjid,
    case when classid = 'pg_rewrite'::regclass then 0 else refobjsubid end) as needs, deptype
from pg_depend
where objid >= 16384 and pg_describe_object(classid, objid, objsubid) !~ 'pg_toast|generated|trigger'
    and pg_describe_object(refclassid, refobjid, refobjsubid) !~ 'pg_temp'
