with held as materialized (
  select 1 from "txbox".leases
  where name = $1 and owner = $2 and term = $3::bigint and expires_at > pg_catalog.clock_timestamp()
  for key share
), suspected as (
  update "txbox".parked as p
  set suspect = true
  from held
  where p.shard = $4 and p.place >= $5::bigint and p.place <= $6::bigint and p.dead_at is null and not p.suspect
    and (p.due_at is null or p.due_at <= pg_catalog.statement_timestamp())
)
select 'true' as held from held
