select cast((
  select count(*) from (
    select 1 from `txbox_local_outbox` as o force index (primary) where o.consumer = cast(? as binary) limit ?
  ) as waiting
) + (
  select count(*) from (
    select 1 from `txbox_local_parked` as p force index (local_parked_due)
    where p.consumer = cast(? as binary) and p.due_at <= utc_timestamp(6) and p.dead_at is null
    limit ?
  ) as due
) as char) as due
