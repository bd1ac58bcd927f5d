insert into "txbox".outbox (shard, id, topic, key, type, content_type, headers, correlation_id, payload)
select shard, id, topic, key, type, content_type, headers, correlation_id, payload
from unnest(
  $1::smallint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::bytea[]
) with ordinality as given (shard, id, topic, key, type, content_type, headers, correlation_id, payload, n)
order by n
