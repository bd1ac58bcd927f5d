insert into "txbox".parked (shard, id, topic, key, type, content_type, headers, correlation_id, payload, deliver_at, due_at)
select shard, id, topic, key, type, content_type, headers, correlation_id, payload, instant.at, instant.at
from unnest(
  $1::smallint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::bytea[],
  $10::double precision[]
) as given (shard, id, topic, key, type, content_type, headers, correlation_id, payload, at_ms)
cross join lateral to_timestamp(given.at_ms / 1000) as instant (at)
