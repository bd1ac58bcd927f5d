select cast(oldest.part as binary) as part, hex(oldest.id) as id, cast(oldest.topic as binary) as topic,
  cast(timestampdiff(microsecond, oldest.since, utc_timestamp(6)) div 1000 as char) as age_ms
from (
  (
    select 'backlog' as part, cast(first.id as binary) as id, first.topic, first.created_at as since
    from ((select id, topic, created_at from `txbox_outbox` where shard = 0 order by seq limit 1)
      union all (select id, topic, created_at from `txbox_outbox` where shard = 1 order by seq limit 1)
      union all (select id, topic, created_at from `txbox_outbox` where shard = 2 order by seq limit 1)
      union all (select id, topic, created_at from `txbox_outbox` where shard = 3 order by seq limit 1)
      union all (select id, topic, created_at from `txbox_outbox` where shard = 4 order by seq limit 1)
      union all (select id, topic, created_at from `txbox_outbox` where shard = 5 order by seq limit 1)
      union all (select id, topic, created_at from `txbox_outbox` where shard = 6 order by seq limit 1)
      union all (select id, topic, created_at from `txbox_outbox` where shard = 7 order by seq limit 1)
      union all (select id, topic, created_at from `txbox_outbox` where shard = 8 order by seq limit 1)
      union all (select id, topic, created_at from `txbox_outbox` where shard = 9 order by seq limit 1)
      union all (select id, topic, created_at from `txbox_outbox` where shard = 10 order by seq limit 1)
      union all (select id, topic, created_at from `txbox_outbox` where shard = 11 order by seq limit 1)
      union all (select id, topic, created_at from `txbox_outbox` where shard = 12 order by seq limit 1)
      union all (select id, topic, created_at from `txbox_outbox` where shard = 13 order by seq limit 1)
      union all (select id, topic, created_at from `txbox_outbox` where shard = 14 order by seq limit 1)
      union all (select id, topic, created_at from `txbox_outbox` where shard = 15 order by seq limit 1)) as first
    order by first.created_at
    limit 1
  )
  union all
  (
    select if(m.deliver_at is null, 'parked', 'scheduled'), m.id, m.topic, m.due_since
    from `txbox_parked` as m force index (parked_due_since) where m.due_since <= utc_timestamp(6)
    order by m.due_since
    limit 1
  )
) as oldest
order by oldest.since
limit 1
