select "total"::text as c0, (
  select pg_catalog.count(*)::text
  from pg_catalog.pg_attribute
  where attrelid = pg_catalog.to_regclass($3) and attnum > 0 and not attisdropped
) as columns
from "orders"
where "region" = $1 and "id" = $2
limit 2
for update
