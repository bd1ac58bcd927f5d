(select concat_ws(X'FF',
    cast(p.`place` as char character set ascii), cast(octet_length(p.`payload`) as char character set ascii),
    cast(timestampdiff(microsecond, '1970-01-01', p.`created_at`) as char character set ascii),
    cast(p.`id` as binary), p.`topic`, p.`content_type`, p.`headers`,
    ifnull(concat(X'3D', p.`key`), X''), ifnull(concat(X'3D', p.`type`), X''), ifnull(concat(X'3D', p.`correlation_id`), X''), ifnull(concat(X'3D', p.`trace_context`), X'')
  ) as fields,
  case when octet_length(p.`payload`) <= ? then p.`payload` end as payload,
  cast(p.attempts as char) as attempts, cast(p.order_key is not null as char) as ordered,
  cast(p.errors as binary) as errors, case when p.suspect or p.due_at > utc_timestamp(6) then '1' end as later
from `txbox_parked` as p force index (parked_order)
where p.shard = ? and p.order_key = ? and p.place >= ?
  and exists (
    select 1 from `txbox_parked` as h force index (primary)
    where h.place = ? and least(greatest(h.created_at, cast('1700-01-01' as datetime(6))), cast('2200-01-01' as datetime(6))) = cast('1970-01-01' as datetime(6)) + interval ? microsecond
  )
order by p.place
limit ?)
