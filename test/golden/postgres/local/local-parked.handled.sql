with found as materialized (
  select p.place from "txbox".local_parked as p
  where p.consumer = $1::text and p.unhandled and p.type = any ($2::text[])
    -- In a way that only the index of these messages can be used.
    and case when p.dead_at is null and p.due_at > pg_catalog.clock_timestamp() then true end
  for update of p skip locked
)
update "txbox".local_parked as p
set due_at = pg_catalog.clock_timestamp()
where p.place = any (array(select f.place from found as f))
