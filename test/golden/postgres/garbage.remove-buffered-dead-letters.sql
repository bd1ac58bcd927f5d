with removed as (
  delete from "txbox".waiting
  where ctid = any (array(
    select ctid
    from "txbox".waiting
    where dead_at <= statement_timestamp() - $3::double precision * interval '1 millisecond' and dead_at >= timestamptz 'epoch' + $2::bigint * interval '1 microsecond'
    order by dead_at
    limit $1
    for update skip locked
  )) and dead_at is not null
  returning dead_at
)
select count(*)::text as removed, (extract(epoch from max(dead_at)) * 1000000)::bigint::text as next
from removed
