insert into "txbox".waiting (consumer, key, from_version, to_version, kind, payload)
values ($1, $2, $3, $4, $5, $6)
on conflict (consumer, key, from_version) do nothing
returning 'true' as stored
