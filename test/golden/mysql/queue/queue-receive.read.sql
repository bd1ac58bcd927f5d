select concat_ws(X'FF',
    cast(q.`place` as char character set ascii), cast(octet_length(q.`payload`) as char character set ascii),
    cast(timestampdiff(microsecond, '1970-01-01', q.`created_at`) as char character set ascii),
    cast(q.`id` as binary), q.`topic`, q.`content_type`, q.`headers`,
    ifnull(concat(X'3D', q.`key`), X''), ifnull(concat(X'3D', q.`type`), X''), ifnull(concat(X'3D', q.`correlation_id`), X''), ifnull(concat(X'3D', q.`trace_context`), X'')
  ) as fields,
  case when octet_length(q.`payload`) <= ? then q.`payload` end as payload,
  cast(q.shard as char) as shard, cast(q.attempts as char) as attempts, cast(q.timeouts as char) as timeouts,
  cast(q.order_key is not null as char) as ordered, cast(timestampdiff(microsecond, '1970-01-01', q.due_at) as char) as due_us
from json_table(?, _utf8mb4'$[*]' columns (place bigint unsigned path _utf8mb4'$')) as j
straight_join `txbox_queue` as q force index (primary) on q.place = j.place
