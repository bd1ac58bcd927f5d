delete from "txbox".waiting
where consumer = $1 and key = $2 and from_version = any($3::bigint[]) and (dead_at is not null) = ($4 = 'dead')
returning 'true' as removed
