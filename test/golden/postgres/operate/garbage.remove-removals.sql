with removed as (
  delete from "txbox".removals
  where ctid = any (array(
    select ctid
    from "txbox".removals
    where removed_at <= pg_catalog.statement_timestamp() - $3::double precision * interval '1 millisecond' and removed_at >= timestamptz 'epoch' + $2::bigint::double precision * interval '1 microsecond'
    order by removed_at
    limit $1
    for update skip locked
  ))
  returning removed_at
)
select pg_catalog.count(*)::text as removed, (extract(epoch from pg_catalog.max(removed_at)) * 1000000::numeric)::bigint::text as next
from removed
