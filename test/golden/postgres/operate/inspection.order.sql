select 'sequence ' || s.sequencename::text || ' has cache ' || s.cache_size::text as found
from pg_catalog.pg_sequences as s
where s.schemaname = $1 and s.sequencename in ('outbox_seq', 'queue_place', 'local_outbox_seq') and s.cache_size <> 1
union all
select 'trigger ' || t.tgname::text || ' of ' || c.relname::text
from pg_catalog.pg_trigger as t
join pg_catalog.pg_class as c on c.oid = t.tgrelid
join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
where n.nspname = $1 and c.relname in ('outbox', 'queue', 'local_outbox') and not t.tgisinternal
