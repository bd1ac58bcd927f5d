insert into `txbox_subscriptions` (registered_at, type, consumer)
values (utc_timestamp(6), ?, ?),(utc_timestamp(6), ?, ?)
on duplicate key update registered_at = `txbox_subscriptions`.registered_at
