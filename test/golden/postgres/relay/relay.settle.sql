with held as materialized (
  select 1 from "txbox".leases
  where name = $1 and owner = $2 and term = $3::bigint and expires_at > pg_catalog.clock_timestamp()
  for key share
)
delete from "txbox".outbox
where ctid = any (array(select pg_catalog.unnest($6::tid[]) from held))
  and shard = $4
  -- A subquery on its own, which is hashed; as a condition it may become a join that scans.
  and case when (seq, least(greatest(outbox.created_at, '1700-01-01T00:00:00Z'::timestamptz), '2200-01-01T00:00:00Z'::timestamptz)) in (select pg_catalog.unnest($5::bigint[]), pg_catalog.unnest($7::timestamptz[])) then true end
