select
  (select cast(count(*) as char) from (select 1 from `txbox_local_outbox` as o force index (primary) where o.consumer = ? limit ?) as counted) as waiting,
  cast(due.refused as char) as refused,
  cast(due.behind as char) as behind,
  cast(due.examined as char) as examined,
  (select cast(count(*) as char) from (select 1 from `txbox_local_parked` as m force index (local_parked_due_since) where m.consumer = ? and m.due_since > utc_timestamp(6) limit ?) as counted) as later,
  (select cast(count(*) as char) from (select 1 from `txbox_local_parked` as m force index (local_parked_due_since) where m.consumer = ? and m.due_since is null limit ?) as counted) as dead,
  (
    select cast(timestampdiff(microsecond, min(created_at), utc_timestamp(6)) div 1000 as char)
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
  ) as oldest_ms
from (
  select count(*) as examined,
    count(case when m.due_at is null then 1 end) as behind,
    count(case when m.due_at is not null and (m.deliver_at is null or m.attempts > 0) then 1 end) as refused
  from (
    select m.due_at, m.deliver_at, m.attempts
    from `txbox_local_parked` as m force index (local_parked_due_since) where m.consumer = ? and m.due_since <= utc_timestamp(6)
    order by m.due_since
    limit ?
  ) as m
) as due
