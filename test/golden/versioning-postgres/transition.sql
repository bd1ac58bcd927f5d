update "orders" set "status" = $1 where "id" = $2 and "status" in ($3);

select cast("status" as text) as "found" from "orders" where "id" = $1 limit $2 for no key update;
