select 'queue' as part, hex(oldest.id) as id, cast(oldest.topic as binary) as topic,
  cast(timestampdiff(microsecond, oldest.since, utc_timestamp(6)) div 1000 as char) as age_ms
from (
  select m.id, m.topic, m.due_since as since
  from `txbox_queue` as m force index (queue_due_since) where m.due_since <= utc_timestamp(6) and (m.due_at is null or m.due_at > '1970-01-01')
  order by m.due_since
  limit 1
) as oldest
