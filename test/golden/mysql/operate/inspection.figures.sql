select
  (select cast(count(*) as char) from (select 1 from `txbox_outbox` limit ?) as counted) as backlog,
  (
    select cast(timestampdiff(microsecond, min(created_at), utc_timestamp(6)) div 1000 as char)
    from ((select created_at from `txbox_outbox` where shard = 0 order by seq limit 1)
      union all (select created_at from `txbox_outbox` where shard = 1 order by seq limit 1)
      union all (select created_at from `txbox_outbox` where shard = 2 order by seq limit 1)
      union all (select created_at from `txbox_outbox` where shard = 3 order by seq limit 1)
      union all (select created_at from `txbox_outbox` where shard = 4 order by seq limit 1)
      union all (select created_at from `txbox_outbox` where shard = 5 order by seq limit 1)
      union all (select created_at from `txbox_outbox` where shard = 6 order by seq limit 1)
      union all (select created_at from `txbox_outbox` where shard = 7 order by seq limit 1)
      union all (select created_at from `txbox_outbox` where shard = 8 order by seq limit 1)
      union all (select created_at from `txbox_outbox` where shard = 9 order by seq limit 1)
      union all (select created_at from `txbox_outbox` where shard = 10 order by seq limit 1)
      union all (select created_at from `txbox_outbox` where shard = 11 order by seq limit 1)
      union all (select created_at from `txbox_outbox` where shard = 12 order by seq limit 1)
      union all (select created_at from `txbox_outbox` where shard = 13 order by seq limit 1)
      union all (select created_at from `txbox_outbox` where shard = 14 order by seq limit 1)
      union all (select created_at from `txbox_outbox` where shard = 15 order by seq limit 1)) as first
  ) as oldest_ms,
  cast(due.refused as char) as refused,
  cast(due.behind as char) as behind,
  cast(due.examined as char) as examined,
  (select cast(count(*) as char) from (select 1 from `txbox_parked` as m force index (parked_due_since) where m.due_since > utc_timestamp(6) limit ?) as counted) as later,
  (select cast(count(*) as char) from (select 1 from `txbox_parked` where dead_at is not null limit ?) as counted) as dead,
  (select cast(count(*) as char) from (select 1 from `txbox_inbox` where expires_at <= utc_timestamp(6) limit ?) as counted) as expired,
  (
    select cast(table_rows as char) from information_schema.tables
    where table_schema = database() and table_name = _utf8mb4'txbox_inbox'
  ) as claims,
  (select cast(count(*) as char) from (select 1 from `txbox_inbox` limit 10000) as counted) as counted_claims,
  (
    select cast(data_length + index_length as char) from information_schema.tables
    where table_schema = database() and table_name = _utf8mb4'txbox_inbox'
  ) as inbox_bytes
from (
  select count(*) as examined,
    count(case when m.due_at is null then 1 end) as behind,
    count(case when m.due_at is not null and (m.deliver_at is null or m.attempts > 0) then 1 end) as refused
  from (
    select m.due_at, m.deliver_at, m.attempts
    from `txbox_parked` as m force index (parked_due_since) where m.due_since <= utc_timestamp(6)
    order by m.due_since
    limit ?
  ) as m
) as due
