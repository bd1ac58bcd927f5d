update "orders"
set "total" = $1, "note" = $2, "version" = $3
where "region" = $4 and "id" = $5 and "version" = $6
returning "version"::text as found
