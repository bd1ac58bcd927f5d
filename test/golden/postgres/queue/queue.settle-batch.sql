update "txbox".queue
set due_at = timestamptz 'epoch', receipt = null, payload = ''
where place = any ($2::bigint[])
  and case when (place, receipt) in (select pg_catalog.unnest($2::bigint[]), pg_catalog.unnest($3::uuid[])) then topic = $1::text end
  and due_at > pg_catalog.clock_timestamp() and order_key is not null
returning place::text as place
