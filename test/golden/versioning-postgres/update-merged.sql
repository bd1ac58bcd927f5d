select *, cast("version" as text) as "txboxversion" from "orders" where "id" = $1 limit $2 for update;

update "orders" set "total" = $1, "version" = $2 where "id" = $3 and "version" = $4 returning cast("version" as text) as "found";

select cast("version" as text) as "found" from "orders" where "id" = $1 limit $2 for no key update;
