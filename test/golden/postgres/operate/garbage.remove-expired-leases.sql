with removed as (
  delete from "txbox".dedup_leases
  where ctid = any (array(
    select ctid
    from "txbox".dedup_leases
    where expires_at <= pg_catalog.statement_timestamp() and expires_at >= timestamptz 'epoch' + $2::bigint::double precision * interval '1 microsecond'
    order by expires_at
    limit $1
    for update skip locked
  ))
  returning expires_at
)
select pg_catalog.count(*)::text as removed, (extract(epoch from pg_catalog.max(expires_at)) * 1000000::numeric)::bigint::text as next
from removed
