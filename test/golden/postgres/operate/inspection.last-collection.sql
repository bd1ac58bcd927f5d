select pg_catalog.floor(pg_catalog.date_part('epoch', finished_at - timestamptz 'epoch') * 1000::double precision)::bigint::text as finished_at, inbox::text as inbox,
  dead_letters::text as dead_letters, duration_ms::text as duration_ms
from "txbox".collections
where finished_at is not null
