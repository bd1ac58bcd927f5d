select asked.n::text as n, waiting::text as waiting, due::text as due
from rows from (pg_catalog.unnest($1::text[]), pg_catalog.unnest($2::smallint[]), pg_catalog.unnest($3::bigint[]))
  with ordinality as asked (consumer, shard, start, n)
cross join lateral (
  select
    -- In order, which only the primary key gives; an EXISTS would be free to scan.
    (
      select true from "txbox".local_outbox as o
      where o.consumer = asked.consumer and o.shard = asked.shard and o.seq >= asked.start + (
    select case when (extract(epoch from pg_catalog.pg_postmaster_start_time()) * 1000000::numeric)::bigint::text || '/' ||
    pg_catalog.pg_relation_filenode('"txbox".local_outbox'::regclass)::text || '/' || pg_catalog.pg_relation_filenode('"txbox".local_outbox_seq'::regclass)::text = $4::text and coalesce(case when pg_catalog.has_sequence_privilege('"txbox".local_outbox_seq', 'select')
    then coalesce(pg_catalog.pg_sequence_last_value('"txbox".local_outbox_seq'::regclass), 0::bigint) end >= $5::bigint, true)
      then '0' else 'txbox: another server' end::bigint
  )
      order by o.consumer, o.shard, o.seq
      limit 1
    ) is not null as waiting,
    (
      select true from "txbox".local_parked as p
      where p.consumer = asked.consumer and p.shard = asked.shard and p.due_at <= pg_catalog.statement_timestamp() and p.dead_at is null
      order by p.consumer, p.shard, p.due_at
      limit 1
    ) is not null as due
) as found
where waiting or due
