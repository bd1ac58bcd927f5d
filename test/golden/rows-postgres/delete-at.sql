delete from "orders"
where "region" = $1 and "id" = $2 and "version" = $3
returning 'true' as deleted
