select shard, due::text as due
from unnest($1::smallint[], $2::bigint[]) as asked (shard, start)
cross join lateral (
  select
    -- In order, which only the primary key gives; an EXISTS would be free to scan.
    (
      select true from "txbox".outbox as o
      where (o.shard, o.seq) >= (asked.shard, asked.start) and (o.shard, o.seq) < (asked.shard + 1, 0)
      order by o.shard, o.seq
      limit 1
    ) is not null as waiting,
    exists (select from "txbox".parked as p where p.shard = asked.shard and p.due_at <= statement_timestamp()) as due
) as found
where waiting or due
