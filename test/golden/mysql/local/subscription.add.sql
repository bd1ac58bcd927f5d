insert into `txbox_subscriptions` (registered_at, type, consumer)
values (utc_timestamp(6), ?, ?)
