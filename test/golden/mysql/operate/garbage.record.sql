update `txbox_collections`
set finished_at = utc_timestamp(6), inbox = ?, dead_letters = ?, duration_ms = ?
where id = 1
