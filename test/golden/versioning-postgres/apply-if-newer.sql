update "orders" set "total" = $1, "changedAt" = cast($2 as timestamptz) where "id" = $3 and cast($4 as timestamptz) <= pg_catalog.clock_timestamp() + cast($5 as double precision) * interval '1 millisecond' and (("orders"."changedAt" is null or "orders"."changedAt" < cast($6 as timestamptz)) and not (coalesce((
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

select case when not (cast($1 as timestamptz) <= pg_catalog.clock_timestamp() + cast($2 as double precision) * interval '1 millisecond') then 'ahead' when coalesce((
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
      when "orders"."changedAt" is null or "orders"."changedAt" < cast($3 as timestamptz) then 'newer' else 'stale' end as "found" from "orders" where "id" = $4 limit $5 for no key update;
