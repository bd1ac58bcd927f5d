select (expires_at > clock_timestamp())::text as live, floor(date_part('epoch', processed_at) * 1000)::bigint::text as processed_at, correlation_id
from "txbox".inbox
where consumer = $1 and key = $2
