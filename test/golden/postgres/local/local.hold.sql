with held as materialized (
  select 1 from "txbox".leases
  where name = $1 and owner = $2 and term = $3::bigint and expires_at > pg_catalog.clock_timestamp()
  for key share
)
select (case when (select pg_catalog.count(*) from held) = 1 then 'true' else 'txbox: the lease is lost' end)::boolean::text as held
