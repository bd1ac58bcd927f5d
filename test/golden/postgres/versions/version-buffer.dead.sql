select key, from_version::text as from_version, to_version::text as to_version, kind, payload, reason, pg_catalog.floor(pg_catalog.date_part('epoch', nullif(nullif(received_at, 'infinity'::timestamptz), '-infinity'::timestamptz)) * 1000::double precision)::bigint::text as received_at, pg_catalog.floor(pg_catalog.date_part('epoch', nullif(nullif(dead_at, 'infinity'::timestamptz), '-infinity'::timestamptz)) * 1000::double precision)::bigint::text as dead_at
from "txbox".waiting
where consumer = $1 and dead_at is not null and ($2::text is null or key = $2)
  and (key, waiting.from_version) > ($3::text collate "C", $4::bigint)
order by key, waiting.from_version
limit $5
