select cast(exists (
  select 1 from `txbox_subscriptions` as m where m.consumer = ?
  and cast(m.type as binary) = ?
) as char) as subscribed
