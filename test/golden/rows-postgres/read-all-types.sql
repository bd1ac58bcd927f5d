select "total"::text as c0, pg_catalog.encode("total", 'hex') as c0, pg_catalog.encode(pg_catalog.float8send("total"::double precision), 'hex') as c0, 
  case when pg_catalog.isfinite("total") then pg_catalog.floor(extract(epoch from "total") * 1000::numeric)::bigint::text
  else "total"::text end as c0, 
  case when pg_catalog.isfinite("total") then pg_catalog.to_char("total", 'YYYY-MM-DD') else "total"::text end as c0, (
  select pg_catalog.count(*)::text
  from pg_catalog.pg_attribute
  where attrelid = pg_catalog.to_regclass($3) and attnum > 0 and not attisdropped
) as columns
from "orders"
where "region" = $1 and "id" = $2
limit 2
