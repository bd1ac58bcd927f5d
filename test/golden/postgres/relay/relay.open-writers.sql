select (extract(epoch from pg_catalog.pg_postmaster_start_time()) * 1000000::numeric)::bigint::text || '/' ||
    pg_catalog.pg_relation_filenode('"txbox".outbox'::regclass)::text || '/' || pg_catalog.pg_relation_filenode('"txbox".outbox_seq'::regclass)::text as server, case when pg_catalog.has_sequence_privilege('"txbox".outbox_seq', 'select')
    then coalesce(pg_catalog.pg_sequence_last_value('"txbox".outbox_seq'::regclass), 0::bigint) end::text as last, null as writer, null as prepared
union all
select null, null, l.virtualtransaction, (l.pid is null)::text
from pg_catalog.pg_locks as l
where l.locktype = 'relation' and l.mode = 'RowExclusiveLock' and l.granted
  and l.database = (select d.oid from pg_catalog.pg_database as d where d.datname = pg_catalog.current_database())
  and l.relation = '"txbox".outbox'::regclass::oid
