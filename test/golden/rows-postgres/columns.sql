select attribute.attname::text as name, base.typname::text as type,
  (base.typnamespace = 'pg_catalog'::pg_catalog.regnamespace)::text as is_known,
  (case when type.typbasetype = 0 then attribute.atttypmod else type.typtypmod end)::text as modifier
from pg_catalog.pg_attribute as attribute
join pg_catalog.pg_type as type on type.oid = attribute.atttypid
join pg_catalog.pg_type as base on base.oid = coalesce(nullif(type.typbasetype, 0), type.oid)
where attribute.attrelid = pg_catalog.to_regclass($1) and attribute.attnum > 0 and not attribute.attisdropped
order by attribute.attnum
