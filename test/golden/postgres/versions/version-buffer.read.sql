select to_version::text as to_version, (dead_at is not null)::text as dead
from "txbox".waiting
where consumer = $1 and key = $2 and from_version = $3
