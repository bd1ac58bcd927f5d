insert into "txbox".versions as v (consumer, key, version)
values ($1, $2, $3)
on conflict (consumer, key) do update set version = v.version
returning v.version::text as version, v.waiting::text as waiting
