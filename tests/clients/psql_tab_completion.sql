SELECT c.relname, NULL::pg_catalog.text FROM pg_catalog.pg_class c WHERE c.relkind IN ('r', 'S', 'v', 'm', 'f', 'p') AND (c.relname) LIKE 'cus%' AND pg_catalog.pg_table_is_visible(c.oid)
UNION ALL
SELECT NULL::pg_catalog.text, n.nspname FROM pg_catalog.pg_namespace n WHERE n.nspname LIKE 'cus%'
LIMIT 1000
;
SELECT pg_catalog.quote_ident(n.nspname) FROM pg_catalog.pg_namespace n WHERE (pg_catalog.quote_ident(n.nspname)) LIKE 'psql\_t%'
LIMIT 1000
;
SELECT pg_catalog.quote_ident(a.attname) FROM pg_catalog.pg_attribute a, pg_catalog.pg_class c WHERE c.oid = a.attrelid AND a.attnum > 0 AND NOT a.attisdropped AND substring(pg_catalog.quote_ident(attname),1,1)='c' AND (pg_catalog.quote_ident(relname)='customer') AND pg_catalog.pg_table_is_visible(c.oid)
LIMIT 1000
;
SELECT pg_catalog.quote_ident(c.relname) FROM pg_catalog.pg_class c WHERE c.relkind IN ('v') AND (pg_catalog.quote_ident(c.relname)) LIKE 'ri%' AND pg_catalog.pg_table_is_visible(c.oid) AND c.relnamespace <> (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = 'pg_catalog')
LIMIT 1000
;
