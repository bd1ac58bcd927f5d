insert into "orders" ("id", "status", "total", "version", "changedAt") select $1 as "id", $2 as "status", $3 as "total", $4 as "version", cast($5 as timestamptz) as "changedAt" where 1 = 1 and not (coalesce((
    select case
      when coalesce(nullif(type.typbasetype, 0), type.oid) in (
        cast('pg_catalog.timestamptz' as pg_catalog.regtype), cast('pg_catalog.timestamp' as pg_catalog.regtype)
      )
      then case when type.typbasetype = 0 then attribute.atttypmod else type.typtypmod end
        between 0 and 5
      else true
    end
    from pg_catalog.pg_type as row_type
    join pg_catalog.pg_attribute as attribute on attribute.attrelid = row_type.typrelid
    join pg_catalog.pg_type as type on type.oid = attribute.atttypid
    where row_type.oid = pg_catalog.pg_typeof(cast(null as "orders"))
      and attribute.attname = (
        select cast(pg_catalog.jsonb_object_keys(pg_catalog.to_jsonb(named)) as pg_catalog.name)
        from (select 1 as "changedAt") as named
      )
  ), false)) on conflict ("id") do update set "total" = $6, "changedAt" = cast($7 as timestamptz) where (("orders"."changedAt" is null or "orders"."changedAt" < cast($8 as timestamptz)) and not (coalesce((
    select case
      when coalesce(nullif(type.typbasetype, 0), type.oid) in (
        cast('pg_catalog.timestamptz' as pg_catalog.regtype), cast('pg_catalog.timestamp' as pg_catalog.regtype)
      )
      then case when type.typbasetype = 0 then attribute.atttypmod else type.typtypmod end
        between 0 and 5
      else true
    end
    from pg_catalog.pg_type as row_type
    join pg_catalog.pg_attribute as attribute on attribute.attrelid = row_type.typrelid
    join pg_catalog.pg_type as type on type.oid = attribute.atttypid
    where row_type.oid = pg_catalog.pg_typeof(cast(null as "orders"))
      and attribute.attname = (
        select cast(pg_catalog.jsonb_object_keys(pg_catalog.to_jsonb(named)) as pg_catalog.name)
        from (select 1 as "changedAt") as named
      )
  ), false)));

select case when not (1 = 1) then 'ahead' when coalesce((
    select case
      when coalesce(nullif(type.typbasetype, 0), type.oid) in (
        cast('pg_catalog.timestamptz' as pg_catalog.regtype), cast('pg_catalog.timestamp' as pg_catalog.regtype)
      )
      then case when type.typbasetype = 0 then attribute.atttypmod else type.typtypmod end
        between 0 and 5
      else true
    end
    from pg_catalog.pg_type as row_type
    join pg_catalog.pg_attribute as attribute on attribute.attrelid = row_type.typrelid
    join pg_catalog.pg_type as type on type.oid = attribute.atttypid
    where row_type.oid = pg_catalog.pg_typeof(cast(null as "orders"))
      and attribute.attname = (
        select cast(pg_catalog.jsonb_object_keys(pg_catalog.to_jsonb(named)) as pg_catalog.name)
        from (select 1 as "changedAt") as named
      )
  ), false) then 'rounds'
      when "orders"."changedAt" is null or "orders"."changedAt" < cast($1 as timestamptz) then 'newer' else 'stale' end as "found" from "orders" where "id" = $2 limit $3 for no key update;

select cast(case when not (1 = 1) then 'ahead' when not (1 = 1 and not (coalesce((
    select case
      when coalesce(nullif(type.typbasetype, 0), type.oid) in (
        cast('pg_catalog.timestamptz' as pg_catalog.regtype), cast('pg_catalog.timestamp' as pg_catalog.regtype)
      )
      then case when type.typbasetype = 0 then attribute.atttypmod else type.typtypmod end
        between 0 and 5
      else true
    end
    from pg_catalog.pg_type as row_type
    join pg_catalog.pg_attribute as attribute on attribute.attrelid = row_type.typrelid
    join pg_catalog.pg_type as type on type.oid = attribute.atttypid
    where row_type.oid = pg_catalog.pg_typeof(cast(null as "orders"))
      and attribute.attname = (
        select cast(pg_catalog.jsonb_object_keys(pg_catalog.to_jsonb(named)) as pg_catalog.name)
        from (select 1 as "changedAt") as named
      )
  ), false))) then 'rounds' else 'none' end as text) as "reason", count(*) as "rows" from "orders" where 1 = 0;
