select
  (select cast(count(*) as char) from (select 1 from `txbox_inbox` where expires_at <= utc_timestamp(6) limit ?) as counted) as inbox,
  (select cast(count(*) as char) from (select 1 from `txbox_parked` where dead_at <= utc_timestamp(6) - interval ? microsecond union all select 1 from `txbox_queue` where dead_at <= utc_timestamp(6) - interval ? microsecond union all select 1 from `txbox_local_parked` where dead_at <= utc_timestamp(6) - interval ? microsecond limit ?) as counted) as dead_letters,
  (select cast(count(*) as char) from (select 1 from `txbox_redrives` where redriven_at <= utc_timestamp(6) - interval ? microsecond union all select 1 from `txbox_removals` where removed_at <= utc_timestamp(6) - interval ? microsecond limit ?) as counted) as redrives,
  (select cast(count(*) as char) from (select 1 from `txbox_waiting` where dead_at <= utc_timestamp(6) - interval ? microsecond limit ?) as counted) as buffered_dead_letters
