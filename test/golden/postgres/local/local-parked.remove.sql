delete from "txbox".local_parked as p
where p.place = any (array(
  select found.place
  from rows from (pg_catalog.unnest($3::bigint[]), pg_catalog.unnest($4::timestamptz[])) as wanted (place, stamp) cross join lateral (
    select p.place from "txbox".local_parked as p
    where p.place = wanted.place and case when p.consumer = $1::text and p.shard = $2::smallint then true end and least(greatest(p.created_at, '1700-01-01T00:00:00Z'::timestamptz), '2200-01-01T00:00:00Z'::timestamptz) = wanted.stamp and p.dead_at is null
    limit 1
  ) as found
))
returning p.place::text as seq
