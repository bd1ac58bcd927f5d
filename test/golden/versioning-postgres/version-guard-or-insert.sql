insert into "orders" ("id", "status", "total", "version", "changedAt") select $1 as "id", $2 as "status", $3 as "total", $4 as "version", $5 as "changedAt" where 1 = 1 on conflict ("id") do update set "version" = $6 where "orders"."version" < cast($7 as numeric);

select cast("version" as text) as "found" from "orders" where "id" = $1 limit $2 for no key update;
