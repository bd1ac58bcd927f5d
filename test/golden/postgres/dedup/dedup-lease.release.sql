delete from "txbox".dedup_leases
where consumer = $1 and key = $2 and token = $3::uuid and processed_at is null
  and expires_at > pg_catalog.clock_timestamp()
returning 'true' as changed
