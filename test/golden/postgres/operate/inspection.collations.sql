select a.attrelid::regclass::text || '.' || a.attname::text as name, l.collname::text as collation
from pg_catalog.pg_attribute as a
join pg_catalog.pg_class as c on c.oid = a.attrelid
join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
join pg_catalog.pg_collation as l on l.oid = a.attcollation
where n.nspname = $1 and (c.relname, a.attname) in (
    ('inbox', 'consumer'), ('inbox', 'key'), ('dedup_leases', 'consumer'), ('dedup_leases', 'key'), ('leases', 'name'), ('parked', 'order_key'), ('queue', 'topic'), ('queue', 'order_key'),
    ('local_outbox', 'consumer'), ('local_parked', 'consumer'), ('local_parked', 'order_key'), ('subscriptions', 'type'),
    ('subscriptions', 'consumer')
  )
  and l.collname <> 'C'
