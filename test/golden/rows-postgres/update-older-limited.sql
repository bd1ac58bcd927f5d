update "orders"
set "total" = $1, "note" = $2, "changed_at" = $3::timestamptz
where "region" = $4 and "id" = $5 and $6::timestamptz <= pg_catalog.clock_timestamp() + $10::double precision * interval '1 millisecond'
  and ("changed_at" is null or "changed_at" < $6::timestamptz) and not coalesce((
    select case
      when coalesce(nullif(type.typbasetype, 0), type.oid) in (
        'pg_catalog.timestamptz'::pg_catalog.regtype, 'pg_catalog.timestamp'::pg_catalog.regtype
      )
      then case when type.typbasetype = 0 then attribute.atttypmod else type.typtypmod end
        between 0 and $9::integer
      else true
    end
    from pg_catalog.pg_attribute as attribute
    join pg_catalog.pg_type as type on type.oid = attribute.atttypid
    where attribute.attrelid = pg_catalog.to_regclass($7) and attribute.attname = $8
  ), false)
returning "changed_at"::text as found
