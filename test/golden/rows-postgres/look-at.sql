select "version"::text as found
from "orders"
where "region" = $1 and "id" = $2
limit 2
for no key update
