update "orders"
set "total" = $1, "note" = $2, "status" = $3
where "region" = $4 and "id" = $5 and "status" in ($6, $7)
returning "status"::text as found
