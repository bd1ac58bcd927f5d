select concat_ws(X'FF',
    cast(p.`place` as char character set ascii), cast(octet_length(p.`payload`) as char character set ascii),
    cast(timestampdiff(microsecond, '1970-01-01', p.`created_at`) as char character set ascii),
    cast(p.`id` as binary), ifnull(concat(X'3D', p.`topic`), X''), p.`content_type`, p.`headers`,
    ifnull(concat(X'3D', p.`key`), X''), ifnull(concat(X'3D', p.`type`), X''), ifnull(concat(X'3D', p.`correlation_id`), X''), ifnull(concat(X'3D', p.`trace_context`), X'')
  ) as fields,
  case when octet_length(p.`payload`) <= ? then p.`payload` end as payload,
  cast(p.attempts as char) as attempts, cast(p.order_key is not null as char) as ordered,
  cast(p.errors as binary) as errors, null as later
from json_table(?, _utf8mb4'$[*]' columns (place bigint unsigned path _utf8mb4'$[0]', stamp bigint path _utf8mb4'$[1]')) as j
straight_join `txbox_local_parked` as p force index (primary) on p.place = j.place
where p.dead_at is null and least(greatest(p.created_at, cast('1700-01-01' as datetime(6))), cast('2200-01-01' as datetime(6))) = cast('1970-01-01' as datetime(6)) + interval j.stamp microsecond
