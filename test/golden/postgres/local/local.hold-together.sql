with held as materialized (
  select 1
  from rows from (pg_catalog.unnest($1::text[]), pg_catalog.unnest($2::text[]), pg_catalog.unnest($3::bigint[])) as given (name, owner, term)
  join "txbox".leases as l on l.name = given.name and l.owner = given.owner and l.term = given.term
  where l.expires_at > pg_catalog.clock_timestamp()
  for key share of l
)
select (case when (select pg_catalog.count(*) from held) = pg_catalog.cardinality($1::text[])
  then 'true' else 'txbox: the lease is lost' end)::boolean::text as held
