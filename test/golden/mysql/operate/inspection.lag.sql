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
  (select cast(count(*) as char) from (select 1 from `txbox_parked` as m force index (parked_due_since) where m.due_since <= utc_timestamp(6) limit ?) as counted) as parked
