select case when not ($3::timestamptz <= pg_catalog.clock_timestamp() + $7::double precision * interval '1 millisecond') then 'ahead' when coalesce((
    select case
      when coalesce(nullif(type.typbasetype, 0), type.oid) in (
        'pg_catalog.timestamptz'::pg_catalog.regtype, 'pg_catalog.timestamp'::pg_catalog.regtype
      )
      then case when type.typbasetype = 0 then attribute.atttypmod else type.typtypmod end
        between 0 and $6::integer
      else true
    end
    from pg_catalog.pg_attribute as attribute
    join pg_catalog.pg_type as type on type.oid = attribute.atttypid
    where attribute.attrelid = pg_catalog.to_regclass($4) and attribute.attname = $5
  ), false) then 'rounds'
  when "changed_at" is null or "changed_at" < $3::timestamptz then 'newer' else 'stale' end as found
from "orders"
where "region" = $1 and "id" = $2
limit 2
for no key update
