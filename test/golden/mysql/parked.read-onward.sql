(select concat_ws(X'FF',
    cast(p.`place` as char character set ascii), cast(octet_length(p.`payload`) as char character set ascii),
    cast(timestampdiff(microsecond, '1970-01-01', p.`created_at`) as char character set ascii),
    cast(p.`id` as binary), p.`topic`, p.`content_type`, p.`headers`,
    ifnull(concat(X'3D', p.`key`), X''), ifnull(concat(X'3D', p.`type`), X''), ifnull(concat(X'3D', p.`correlation_id`), X'')
  ) as fields,
  case when octet_length(p.`payload`) <= ? then p.`payload` end as payload,
  cast(p.attempts as char) as attempts, cast(p.order_key is not null as char) as ordered, case when p.due_at > utc_timestamp(6) then 1 end as later
from `txbox_parked` as p force index (parked_order)
where p.shard = ? and p.order_key = ? and p.place >= ?
order by p.place
limit ?)
