select distinct l.virtualtransaction as id
from pg_catalog.pg_locks as l
where l.locktype = 'relation' and l.relation = '"txbox".subscriptions'::regclass::oid
  and l.database = (select d.oid from pg_catalog.pg_database as d where d.datname = pg_catalog.current_database())
  and l.pid <> pg_catalog.pg_backend_pid()
