select concat_ws(X'FF',
    cast(o.`seq` as char character set ascii), cast(octet_length(o.`payload`) as char character set ascii),
    cast(timestampdiff(microsecond, '1970-01-01', o.`created_at`) as char character set ascii),
    cast(o.`id` as binary), ifnull(concat(X'3D', o.`topic`), X''), o.`content_type`, o.`headers`,
    ifnull(concat(X'3D', o.`key`), X''), ifnull(concat(X'3D', o.`type`), X''), ifnull(concat(X'3D', o.`correlation_id`), X''), ifnull(concat(X'3D', o.`trace_context`), X'')
  ) as fields,
  case when octet_length(o.`payload`) <= ? then o.`payload` end as payload,
  case
    when exists (select 1 from `txbox_local_parked` as b force index (local_parked_order) where b.consumer = ? and b.shard = ? and b.order_key is not null)
    then (
      select '1' from `txbox_local_parked` as p force index (local_parked_order)
      where p.consumer = ? and p.shard = ? and p.order_key = cast(o.`key` as binary)
      limit 1
    )
  end as blocked
from `txbox_local_outbox` as o force index (primary)
where o.consumer = ? and o.shard = ? and (o.`key` is null or cast(o.`key` as binary) not in (?))
order by o.seq
limit ?
