select cast('local' as binary) as part, hex(oldest.id) as id, cast(oldest.topic as binary) as topic,
  cast(timestampdiff(microsecond, oldest.since, utc_timestamp(6)) div 1000 as char) as age_ms
from (
  (
    select cast(first.id as binary) as id, first.topic, first.created_at as since
    from ((select id, topic, created_at from `txbox_local_outbox` where consumer = ? and shard = 0 order by seq limit 1)
      union all (select id, topic, created_at from `txbox_local_outbox` where consumer = ? and shard = 1 order by seq limit 1)
      union all (select id, topic, created_at from `txbox_local_outbox` where consumer = ? and shard = 2 order by seq limit 1)
      union all (select id, topic, created_at from `txbox_local_outbox` where consumer = ? and shard = 3 order by seq limit 1)
      union all (select id, topic, created_at from `txbox_local_outbox` where consumer = ? and shard = 4 order by seq limit 1)
      union all (select id, topic, created_at from `txbox_local_outbox` where consumer = ? and shard = 5 order by seq limit 1)
      union all (select id, topic, created_at from `txbox_local_outbox` where consumer = ? and shard = 6 order by seq limit 1)
      union all (select id, topic, created_at from `txbox_local_outbox` where consumer = ? and shard = 7 order by seq limit 1)
      union all (select id, topic, created_at from `txbox_local_outbox` where consumer = ? and shard = 8 order by seq limit 1)
      union all (select id, topic, created_at from `txbox_local_outbox` where consumer = ? and shard = 9 order by seq limit 1)
      union all (select id, topic, created_at from `txbox_local_outbox` where consumer = ? and shard = 10 order by seq limit 1)
      union all (select id, topic, created_at from `txbox_local_outbox` where consumer = ? and shard = 11 order by seq limit 1)
      union all (select id, topic, created_at from `txbox_local_outbox` where consumer = ? and shard = 12 order by seq limit 1)
      union all (select id, topic, created_at from `txbox_local_outbox` where consumer = ? and shard = 13 order by seq limit 1)
      union all (select id, topic, created_at from `txbox_local_outbox` where consumer = ? and shard = 14 order by seq limit 1)
      union all (select id, topic, created_at from `txbox_local_outbox` where consumer = ? and shard = 15 order by seq limit 1)) as first
    order by first.created_at
    limit 1
  )
  union all
  (
    select m.id, m.topic, m.due_since
    from `txbox_local_parked` as m force index (local_parked_due_since)
    where m.consumer = ? and m.due_since <= utc_timestamp(6)
    order by m.due_since
    limit 1
  )
) as oldest
order by oldest.since
limit 1
