select o.seq::text as seq, o.ctid::text as address, o.id, o.topic, o.key, o.type, o.correlation_id, o.trace_context,
  nullif(o.content_type, 'application/json') as content_type, nullif(o.headers, '{}') as headers,
  (extract(epoch from least(greatest(o.created_at, '0001-01-01Z'::timestamptz), '9999-12-31Z'::timestamptz)) * 1000000::numeric)::bigint::text as stamp,
  case when pg_catalog.octet_length(o.payload) > $3 then pg_catalog.octet_length(o.payload)::text end as payload_bytes,
  case when pg_catalog.octet_length(o.payload) <= $3 then pg_catalog.encode(o.payload, 'escape') end as payload,
  case
    when (
      select true from "txbox".local_parked as b
      where b.consumer = $7::text and b.order_key is not null and (b.shard, b.order_key) >= ($1::smallint, '') and b.shard <= $1
      order by b.shard, b.order_key, b.place
      limit 1
    )
    then (
      select 'true' from "txbox".local_parked as p
      where p.consumer = $7::text and p.order_key is not null and p.shard = $1::smallint
        and (p.order_key, p.place) > (o.key, 0) and p.order_key <= o.key
      order by p.shard, p.order_key, p.place
      limit 1
    )
  end as blocked
from "txbox".local_outbox as o
where o.consumer = $7::text and (o.shard, o.seq) >= ($1::smallint, $4::bigint + (
    select case when (extract(epoch from pg_catalog.pg_postmaster_start_time()) * 1000000::numeric)::bigint::text || '/' ||
    pg_catalog.pg_relation_filenode('"txbox".local_outbox'::regclass)::text || '/' || pg_catalog.pg_relation_filenode('"txbox".local_outbox_seq'::regclass)::text = $5::text and coalesce(case when pg_catalog.has_sequence_privilege('"txbox".local_outbox_seq', 'select')
    then coalesce(pg_catalog.pg_sequence_last_value('"txbox".local_outbox_seq'::regclass), 0::bigint) end >= $6::bigint, true)
      then '0' else 'txbox: another server' end::bigint
  )::bigint) and o.shard <= $1::smallint
  and (o.key is null or o.key <> all ($8::text[]))
order by o.shard, o.seq
limit (select $2::bigint)
