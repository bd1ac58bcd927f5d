with found as materialized (
  select m.place from "txbox".local_parked as m
  where m.consumer = $1 and ($2::text is null or m.type = $2) and m.place > $4::bigint
  order by m.place
  limit $5
  for update skip locked
), gone as (
  delete from "txbox".local_parked as m
  using found
  where m.place = found.place
  returning m.place
), recorded as (
  update "txbox".removals
  set discarded = discarded + (select pg_catalog.count(*) from gone)
  where number = $3::bigint and exists (select from gone)
)
select (select pg_catalog.count(*) from gone)::text as removed, (select pg_catalog.count(*) from found)::text as found,
  (select pg_catalog.max(f.place) from found as f)::text as place
