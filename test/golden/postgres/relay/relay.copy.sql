set transaction isolation level read committed; set local statement_timeout = $7;
select pg_catalog.set_config('txbox.read_from', $4, true), pg_catalog.set_config('txbox.server', $5, true),
  pg_catalog.set_config('txbox.last', $6, true); copy (
select o.seq, o.created_at, o.ctid, o.topic, o.type, o.content_type, o.headers, o.id, o.key, o.correlation_id, o.trace_context,
  case
    when (
      select true from "txbox".parked as b
      where b.order_key is not null and (b.shard, b.order_key) >= ($1::smallint, '') and b.shard <= $1
      order by b.shard, b.order_key, b.place
      limit 1
    )
    then (
      select 'true' from "txbox".parked as p
      where p.order_key is not null and p.shard = $1::smallint
        and (p.order_key, p.place) > (o.key, 0) and p.order_key <= o.key
      order by p.shard, p.order_key, p.place
      limit 1
    )
  end as blocked,
  pg_catalog.octet_length(o.payload) as payload_bytes,
  case when pg_catalog.octet_length(o.payload) <= $3 then o.payload end as payload
from "txbox".outbox as o
where (o.shard, o.seq) >= ($1::smallint, pg_catalog.current_setting('txbox.read_from')::bigint + (
    select case when (extract(epoch from pg_catalog.pg_postmaster_start_time()) * 1000000::numeric)::bigint::text || '/' ||
    pg_catalog.pg_relation_filenode('"txbox".outbox'::regclass)::text || '/' || pg_catalog.pg_relation_filenode('"txbox".outbox_seq'::regclass)::text = pg_catalog.current_setting('txbox.server') and coalesce(case when pg_catalog.has_sequence_privilege('"txbox".outbox_seq', 'select')
    then coalesce(pg_catalog.pg_sequence_last_value('"txbox".outbox_seq'::regclass), 0::bigint) end >= pg_catalog.current_setting('txbox.last')::bigint, true)
      then '0' else 'txbox: another server' end::bigint
  )::bigint) and (o.shard, o.seq) < ($1::smallint + 1, 0)
order by o.shard, o.seq
limit $2
) to stdout (format binary)
