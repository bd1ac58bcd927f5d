with removed as (
  delete from "txbox".inbox
  where ctid = any (array(
    select ctid
    from "txbox".inbox
    where expires_at <= statement_timestamp() and expires_at >= timestamptz 'epoch' + $2::bigint * interval '1 microsecond'
    order by expires_at
    limit $1
    for update skip locked
  ))
  returning expires_at
)
select count(*)::text as removed, (extract(epoch from max(expires_at)) * 1000000)::bigint::text as next
from removed
