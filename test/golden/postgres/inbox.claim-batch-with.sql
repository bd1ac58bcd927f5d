with input as materialized (
  select key, correlation_id, result, pg_catalog.decode(content_hash, 'hex') as content_hash
  from rows from (pg_catalog.unnest($2::text[]), pg_catalog.unnest($3::text[]), pg_catalog.unnest($5::text[]), pg_catalog.unnest($6::text[])) with ordinality as given (key, correlation_id, result, content_hash, n)
  order by n
), inserted as (
  insert into "txbox".inbox (consumer, key, correlation_id, processed_at, expires_at, result, content_hash)
  select $1, key, correlation_id, pg_catalog.clock_timestamp(), pg_catalog.clock_timestamp() + $4::interval, result, content_hash from input
  on conflict (consumer, key) do nothing
  returning key, processed_at
), expired as materialized (
  select held.key, input.correlation_id, input.result, input.content_hash
  from "txbox".inbox as held join input on held.key = input.key collate "C"
  where held.consumer = $1 and held.expires_at <= pg_catalog.clock_timestamp()
    and (select pg_catalog.count(*) from inserted) >= 0
  order by held.key
  for update of held
), renewed as (
  update "txbox".inbox as held
  set correlation_id = expired.correlation_id, processed_at = pg_catalog.clock_timestamp(), expires_at = pg_catalog.clock_timestamp() + $4::interval,
      result = expired.result, content_hash = expired.content_hash
  from expired
  where held.consumer = $1 and held.key = expired.key
  returning held.key, held.processed_at
)
select input.key,
  case
    when inserted.key is not null or renewed.key is not null then 'won'
    when held.expires_at > pg_catalog.clock_timestamp() then 'taken'
    else 'unsettled'
  end as state,
  pg_catalog.floor(pg_catalog.date_part('epoch', nullif(nullif(coalesce(inserted.processed_at, renewed.processed_at, held.processed_at), 'infinity'::timestamptz), '-infinity'::timestamptz)) * 1000::double precision)::bigint::text as processed_at,
  held.correlation_id, held.result, pg_catalog.encode(held.content_hash, 'hex') as content_hash
from input
left join inserted on inserted.key = input.key collate "C"
left join renewed on renewed.key = input.key collate "C"
left join "txbox".inbox as held on held.consumer = $1 and held.key = input.key collate "C"
