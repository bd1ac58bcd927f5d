select now.server, now.last, l.writer, l.prepared
from (select (extract(epoch from pg_catalog.pg_postmaster_start_time()) * 1000000::numeric)::bigint::text || '/' ||
    pg_catalog.pg_relation_filenode('"txbox".local_outbox'::regclass)::text || '/' || pg_catalog.pg_relation_filenode('"txbox".local_outbox_seq'::regclass)::text as server, case when pg_catalog.has_sequence_privilege('"txbox".local_outbox_seq', 'select')
    then coalesce(pg_catalog.pg_sequence_last_value('"txbox".local_outbox_seq'::regclass), 0::bigint) end::text as last offset 0) as now
left join lateral (
  select l.virtualtransaction as writer, (l.pid is null)::text as prepared
  from pg_catalog.pg_locks as l
  where l.locktype = 'relation' and l.mode = 'RowExclusiveLock' and l.granted and now.server is not null
    and l.database = (select d.oid from pg_catalog.pg_database as d where d.datname = pg_catalog.current_database())
    and l.relation = '"txbox".local_outbox_seq'::regclass::oid
) as l on true
