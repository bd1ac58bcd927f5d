select c.relname::text as name, i.indisvalid::text as valid
from pg_catalog.pg_index as i
join pg_catalog.pg_class as c on c.oid = i.indexrelid
join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
where n.nspname = $1
