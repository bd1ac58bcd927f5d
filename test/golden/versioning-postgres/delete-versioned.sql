delete from "orders" where "id" = $1 and "version" = $2;

select cast("version" as text) as "found" from "orders" where "id" = $1 limit $2 for no key update;
