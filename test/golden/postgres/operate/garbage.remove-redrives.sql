with removed as (
  delete from "txbox".redrives
  where ctid = any (array(
    select ctid
    from "txbox".redrives
    where redriven_at <= pg_catalog.statement_timestamp() - $3::double precision * interval '1 millisecond' and redriven_at >= timestamptz 'epoch' + $2::bigint::double precision * interval '1 microsecond'
    order by redriven_at
    limit $1
    for update skip locked
  ))
  returning redriven_at
)
select pg_catalog.count(*)::text as removed, (extract(epoch from pg_catalog.max(redriven_at)) * 1000000::numeric)::bigint::text as next
from removed
