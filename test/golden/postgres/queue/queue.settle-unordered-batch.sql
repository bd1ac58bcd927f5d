delete from "txbox".queue
where place = any ($1::bigint[])
  and case when (place, receipt) in (select pg_catalog.unnest($1::bigint[]), pg_catalog.unnest($2::uuid[])) then true end
  and due_at > pg_catalog.clock_timestamp() and order_key is null
returning place::text as place
