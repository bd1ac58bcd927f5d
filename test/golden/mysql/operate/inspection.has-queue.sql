select cast(
  exists (select 1 from `txbox_queue` as q force index (queue_id) where q.topic = ?)
  or exists (select 1 from `txbox_leases` as l where l.name in (?))
as char) as there
