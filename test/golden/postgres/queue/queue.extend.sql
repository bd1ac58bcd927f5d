with found as materialized (
  select place, due_at from "txbox".queue
  where place = any ($2::bigint[])
  and case when (place, receipt) in (select pg_catalog.unnest($2::bigint[]), pg_catalog.unnest($3::uuid[])) then topic = $1::text end
), locked as materialized (
  select place from "txbox".queue
  where place = any ($2::bigint[])
  and case when (place, receipt) in (select pg_catalog.unnest($2::bigint[]), pg_catalog.unnest($3::uuid[])) then topic = $1::text end
  order by place
  for update skip locked
), extended as (
  update "txbox".queue as q
  set due_at = pg_catalog.clock_timestamp() + $4::double precision * interval '1 millisecond',
    receipt = case when $4::double precision > 0::double precision then q.receipt end
  where q.place = any (array(select locked.place from locked)) and q.due_at > pg_catalog.clock_timestamp()
  returning q.place
)
select found.place::text as place
from found
where case when found.place in (select locked.place from locked) then found.place in (select extended.place from extended)
  else found.due_at > pg_catalog.clock_timestamp() end
