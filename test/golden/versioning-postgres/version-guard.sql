update "orders" set "version" = $1 where "id" = $2 and "orders"."version" < cast($3 as numeric);

select cast("version" as text) as "found" from "orders" where "id" = $1 limit $2 for no key update;
