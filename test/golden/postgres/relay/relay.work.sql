select shard::text as shard, due::text as due
from rows from (pg_catalog.unnest($1::smallint[]), pg_catalog.unnest($2::bigint[])) as asked (shard, start)
cross join lateral (
  select
    -- In order, which only the primary key gives; an EXISTS would be free to scan.
    (
      select true from "txbox".outbox as o
      where (o.shard, o.seq) >= (asked.shard, asked.start + (
    select case when (extract(epoch from pg_catalog.pg_postmaster_start_time()) * 1000000::numeric)::bigint::text || '/' ||
    pg_catalog.pg_relation_filenode('"txbox".outbox'::regclass)::text || '/' || pg_catalog.pg_relation_filenode('"txbox".outbox_seq'::regclass)::text = $3::text and coalesce(case when pg_catalog.has_sequence_privilege('"txbox".outbox_seq', 'select')
    then coalesce(pg_catalog.pg_sequence_last_value('"txbox".outbox_seq'::regclass), 0::bigint) end >= $4::bigint, true)
      then '0' else 'txbox: another server' end::bigint
  )) and (o.shard, o.seq) < (asked.shard + 1, 0)
      order by o.shard, o.seq
      limit 1
    ) is not null as waiting,
    exists (
      select from "txbox".parked as p where p.shard = asked.shard and p.due_at <= pg_catalog.statement_timestamp() and p.dead_at is null
    ) as due
) as found
where waiting or due
