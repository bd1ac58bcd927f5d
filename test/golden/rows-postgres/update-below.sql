update "orders"
set "version" = $1
where "region" = $2 and "id" = $3 and "version" < $4::numeric
returning "version"::text as found
