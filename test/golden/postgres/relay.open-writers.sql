select virtualtransaction as writer, (pid is null)::text as prepared
from pg_catalog.pg_locks
where locktype = 'relation' and mode = 'RowExclusiveLock' and granted
  and database = (select oid from pg_catalog.pg_database where datname = current_database())
  and relation = '"txbox".outbox'::regclass
