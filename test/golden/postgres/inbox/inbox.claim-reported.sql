with turn as materialized (
  select pg_catalog.pg_try_advisory_xact_lock(pg_catalog.hashtextextended(pg_catalog.concat_ws(pg_catalog.chr(31), $1::text, $2::text) collate "C", 2088571549)) as free
), inserted as (
  insert into "txbox".inbox (consumer, key, correlation_id, processed_at, expires_at, result, content_hash)
  select $1::text, $2::text, $3::text, pg_catalog.clock_timestamp(), pg_catalog.clock_timestamp() + $4::interval, $5::text, pg_catalog.decode($6, 'hex')
  from turn
  where turn.free
  on conflict (consumer, key) do nothing
  returning 1
)
select turn.free::text as free, (select pg_catalog.count(*) from inserted)::text as won
from turn
