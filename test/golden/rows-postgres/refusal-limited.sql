select case when not ($1::timestamptz <= pg_catalog.clock_timestamp() + $5::double precision * interval '1 millisecond') then 'ahead' when coalesce((
    select case
      when coalesce(nullif(type.typbasetype, 0), type.oid) in (
        'pg_catalog.timestamptz'::pg_catalog.regtype, 'pg_catalog.timestamp'::pg_catalog.regtype
      )
      then case when type.typbasetype = 0 then attribute.atttypmod else type.typtypmod end
        between 0 and $4::integer
      else true
    end
    from pg_catalog.pg_attribute as attribute
    join pg_catalog.pg_type as type on type.oid = attribute.atttypid
    where attribute.attrelid = pg_catalog.to_regclass($2) and attribute.attname = $3
  ), false) then 'rounds' else 'newer' end as found
