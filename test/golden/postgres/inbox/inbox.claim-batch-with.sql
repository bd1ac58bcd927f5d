with input as materialized (
  select n, key, correlation_id, result, pg_catalog.decode(content_hash, 'hex') as content_hash
  from rows from (pg_catalog.unnest($2::text[]), pg_catalog.unnest($3::text[]), pg_catalog.unnest($5::text[]), pg_catalog.unnest($6::text[])) with ordinality as given (key, correlation_id, result, content_hash, n)
  order by n
), inserted as (
  insert into "txbox".inbox (consumer, key, correlation_id, processed_at, expires_at, result, content_hash)
  select $1, key, correlation_id, pg_catalog.clock_timestamp(), pg_catalog.clock_timestamp() + $4::interval, result, content_hash from input
  on conflict (consumer, key) do nothing
  returning key, processed_at
), present as materialized (
  select input.*, held.expires_at, held.processed_at, held.correlation_id as held_correlation_id, held.result as held_result, held.content_hash as held_content_hash
  from (
    select * from input
    where not exists (select from inserted where inserted.key = input.key collate "C")
    offset 0
  ) as input
  cross join lateral (
    select * from "txbox".inbox as held where held.consumer = $1 and held.key = input.key collate "C" offset 0
  ) as held
), expired as materialized (
  select due.key, due.correlation_id, due.result, due.content_hash
  from (
    select * from present
    where expires_at <= pg_catalog.clock_timestamp()
    order by n
  ) as due
  cross join lateral (
    select from "txbox".inbox as held
    where held.consumer = $1 and held.key = due.key collate "C" and held.expires_at <= pg_catalog.clock_timestamp()
    for update of held
  ) as held
), renewed as (
  update "txbox".inbox as held
  set correlation_id = expired.correlation_id, processed_at = pg_catalog.clock_timestamp(), expires_at = pg_catalog.clock_timestamp() + $4::interval,
      result = expired.result, content_hash = expired.content_hash
  from expired
  where held.consumer = $1 and held.key = expired.key collate "C"
  returning held.key, held.processed_at
)
select input.key,
  case
    when inserted.key is not null or renewed.key is not null then 'won'
    when present.expires_at > pg_catalog.clock_timestamp() then 'duplicate'
    else 'unsettled'
  end as state,
  pg_catalog.floor(pg_catalog.date_part('epoch', nullif(nullif(coalesce(inserted.processed_at, renewed.processed_at, present.processed_at), 'infinity'::timestamptz), '-infinity'::timestamptz)) * 1000::double precision)::bigint::text as processed_at,
  present.held_correlation_id as correlation_id, present.held_result as result, pg_catalog.encode(present.held_content_hash, 'hex') as content_hash
from input
left join inserted on inserted.key = input.key collate "C"
left join renewed on renewed.key = input.key collate "C"
left join present on present.key = input.key collate "C"
