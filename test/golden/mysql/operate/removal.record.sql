insert into `txbox_removals` (removed_at, discarded, consumer, type, removed_by)
values (utc_timestamp(6), 0, ?, ?, ?)
