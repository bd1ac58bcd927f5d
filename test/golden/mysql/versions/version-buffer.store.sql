insert into `txbox_waiting` (consumer, `key`, from_version, to_version, kind, payload, received_at)
values (?, ?, ?, ?, ?, ?, utc_timestamp(6))
