with removed as (
  delete from "txbox".local_parked
  where ctid = any (array(
    select ctid
    from "txbox".local_parked
    where dead_at <= pg_catalog.statement_timestamp() - $3::double precision * interval '1 millisecond' and dead_at >= timestamptz 'epoch' + $2::bigint::double precision * interval '1 microsecond'
    order by dead_at
    limit $1
    for update skip locked
  )) and dead_at is not null
  returning dead_at
)
select pg_catalog.count(*)::text as removed, (extract(epoch from pg_catalog.max(dead_at)) * 1000000::numeric)::bigint::text as next
from removed
