select name, owner, term::text as term, pg_catalog.floor(pg_catalog.date_part('epoch', expires_at - pg_catalog.clock_timestamp()) * 1000::double precision)::bigint::text as remaining_ms
from "txbox".leases
where owner is not null
  -- A relay or a consumer that has vanished leaves the row by which the others knew it. That it has gone shows by the shards it
  -- held.
  and (name not like 'relay/%' and name not like 'local-member/%' and name <> 'metrics' or expires_at > pg_catalog.clock_timestamp())
order by name
