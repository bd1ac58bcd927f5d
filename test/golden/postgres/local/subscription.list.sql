select s.consumer, s.type, pg_catalog.floor(pg_catalog.date_part('epoch', s.registered_at) * 1000::double precision)::text as registered_at
from "txbox".subscriptions as s
order by s.consumer, s.type
