select
  (select cast(count(*) as char) from (select 1 from `txbox_local_outbox` as o force index (primary) where o.consumer = ? limit ?) as counted) as waiting,
  (select cast(count(*) as char) from (select 1 from `txbox_local_parked` as m force index (local_parked_due_since) where m.consumer = ? and m.due_since is not null and m.deliver_at is null limit ?) as counted) as parked,
  (select cast(count(*) as char) from (select 1 from `txbox_local_parked` as m force index (local_parked_due_since) where m.consumer = ? and m.due_since is not null and m.deliver_at is not null limit ?) as counted) as scheduled,
  (select cast(count(*) as char) from (select 1 from `txbox_local_parked` as m force index (local_parked_due_since) where m.consumer = ? and m.due_since is null limit ?) as counted) as dead
