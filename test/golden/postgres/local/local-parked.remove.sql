delete from "txbox".local_parked as p
where p.place = any ($3::bigint[]) and p.consumer = $1::text and p.shard = $2::smallint and p.dead_at is null
  and case when (p.place, least(greatest(p.created_at, '1700-01-01T00:00:00Z'::timestamptz), '2200-01-01T00:00:00Z'::timestamptz)) in (select pg_catalog.unnest($3::bigint[]), pg_catalog.unnest($4::timestamptz[])) then true end
returning p.place::text as seq
