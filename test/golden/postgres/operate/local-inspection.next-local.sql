select least(
  (select o.consumer from "txbox".local_outbox as o where o.consumer > $1 order by o.consumer, o.shard, o.seq limit 1),
  (
    select m.consumer from "txbox".local_parked as m
    where m.dead_at is null and m.consumer > $1
    order by m.consumer, greatest(m.created_at, m.deliver_at, m.redriven_at)
    limit 1
  ),
  (
    select m.consumer from "txbox".local_parked as m
    where m.dead_at is not null and m.consumer > $1
    order by m.consumer, m.id, m.place
    limit 1
  ),
  (select pg_catalog.min(s.consumer) from "txbox".subscriptions as s where s.consumer > $1)
) as consumer
