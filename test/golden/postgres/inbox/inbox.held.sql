select pg_catalog.count(*)::text as held
from "txbox".inbox as claimed
cross join (select pg_catalog.pg_current_xact_id_if_assigned()::text::bigint as id) as own
cross join lateral (
  select (claimed.xmin::text::bigint - own.id % 4294967296 + 4294967296) % 4294967296 as distance
) as after
where claimed.consumer = $1 and claimed.key = any($2::text[])
  and case when after.distance < 2147483648
    then pg_catalog.pg_xact_status((own.id + after.distance)::text::pg_catalog.xid8) = 'in progress'
  end
