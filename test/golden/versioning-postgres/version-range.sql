
    select cast(base.typname as text) as type,
      cast(case when type.typbasetype = 0 then attribute.atttypmod else type.typtypmod end as text) as modifier
    from pg_catalog.pg_attribute as attribute
    join pg_catalog.pg_type as type on type.oid = attribute.atttypid
    join pg_catalog.pg_type as base on base.oid = coalesce(nullif(type.typbasetype, 0), type.oid)
    where attribute.attrelid = pg_catalog.to_regclass($1) and attribute.attname = $2
      and base.typnamespace = cast('pg_catalog' as pg_catalog.regnamespace);

update "orders" set "total" = $1, "version" = $2 where "id" = $3 and "version" = $4 returning cast("version" as text) as "found";

select cast("version" as text) as "found" from "orders" where "id" = $1 limit $2 for no key update;
