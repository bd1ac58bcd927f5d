delete from "txbox".inbox
where ctid = any (array(
  select i.ctid from "txbox".inbox as i
  where i.consumer = $1
  limit $2
  for update skip locked
))
returning 'true' as forgotten
