insert into "orders" as txbox_row ("region", "id", "total", "changed_at")
select $1, $2, $3, $4::timestamptz
where $7::timestamptz is not null and not coalesce((
    select case
      when coalesce(nullif(type.typbasetype, 0), type.oid) in (
        'pg_catalog.timestamptz'::pg_catalog.regtype, 'pg_catalog.timestamp'::pg_catalog.regtype
      )
      then case when type.typbasetype = 0 then attribute.atttypmod else type.typtypmod end
        between 0 and $10::integer
      else true
    end
    from pg_catalog.pg_attribute as attribute
    join pg_catalog.pg_type as type on type.oid = attribute.atttypid
    where attribute.attrelid = pg_catalog.to_regclass($8) and attribute.attname = $9
  ), false)
on conflict ("region", "id") do update
set "total" = $5, "note" = $6, "changed_at" = excluded."changed_at"
where $7::timestamptz is not null
  and (txbox_row."changed_at" is null or txbox_row."changed_at" < $7::timestamptz) and not coalesce((
    select case
      when coalesce(nullif(type.typbasetype, 0), type.oid) in (
        'pg_catalog.timestamptz'::pg_catalog.regtype, 'pg_catalog.timestamp'::pg_catalog.regtype
      )
      then case when type.typbasetype = 0 then attribute.atttypmod else type.typtypmod end
        between 0 and $10::integer
      else true
    end
    from pg_catalog.pg_attribute as attribute
    join pg_catalog.pg_type as type on type.oid = attribute.atttypid
    where attribute.attrelid = pg_catalog.to_regclass($8) and attribute.attname = $9
  ), false)
returning 'true' as written
