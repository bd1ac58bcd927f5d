insert into `txbox_migrations` (number, title, applied_at)
values (0, ?, utc_timestamp(6) + interval 30 second)
on duplicate key update
  title = if(applied_at < utc_timestamp(6), ?, title),
  applied_at = if(title = ?, utc_timestamp(6) + interval 30 second, applied_at)
