/** Every statement on dead letters that somebody runs who looks after them. `schema` is quoted. */
export function deadLetterStatements(schema: string) {
  const parked = `${schema}.parked`
  const milliseconds = (column: string): string =>
    `pg_catalog.floor(pg_catalog.date_part('epoch', ${column}) * 1000::double precision)::bigint::text`
  const columns = `d.id, d.topic, d.type, d.key, d.content_type, d.correlation_id, d.error, d.attempts::text as attempts,
  ${milliseconds('d.created_at')} as created_at, ${milliseconds('d.dead_at')} as dead_at,
  ${milliseconds('r.redriven_at')} as redriven_at, r.redriven_by`
  const lastRedrive = `left join lateral (
  select r.redriven_at, r.redriven_by from ${schema}.redrives as r
  where r.id = d.id
  order by r.redriven_at desc
  limit 1
) as r on true`
  /** `$1` to `$5`: ids, topic, type, key, after; null means any. `$6`: at most so many. */
  const chosen = `where p.dead_at is not null
  and ($1::text[] is null or p.id = any ($1::text[]))
  and ($2::text is null or p.topic = $2)
  and ($3::text is null or p.type = $3)
  and ($4::text is null or p.key = $4)
  and ($5::text is null or p.id > $5)
order by p.id, p.place
limit $6`
  return {
    list: `
select ${columns}
from (
  select * from ${parked} as p
  ${chosen}
) as d
${lastRedrive}
order by d.id, d.place`,

    /**
     * Whoever asks at the same time waits, and finds them put back. The first of each key is due; the rest of it follows
     * in the order of their places. Scheduled ones are due by themselves, and are the first of nothing.
     */
    redrive: `
with chosen as materialized (
  select * from ${parked} as p
  ${chosen}
  for update
), ranked as materialized (
  select c.place, case when c.deliver_at is null then c.key end as order_key,
    pg_catalog.row_number() over (partition by c.shard, c.key, c.deliver_at is null order by c.place) as n
  from chosen as c
), redriven as (
  update ${parked} as p
  set dead_at = null, attempts = 0, order_key = ranked.order_key,
    due_at = case when ranked.order_key is null or ranked.n = 1 then pg_catalog.clock_timestamp() end
  from ranked
  where p.place = ranked.place and p.dead_at is not null
  returning p.place
), recorded as (
  insert into ${schema}.redrives (place, dead_at, attempts, id, topic, key, error, redriven_by)
  select c.place, c.dead_at, c.attempts, c.id, c.topic, c.key, c.error, $7
  from chosen as c join redriven using (place)
)
select ${columns}
from chosen as d join redriven using (place)
${lastRedrive}
order by d.id, d.place`,

    discard: `
with d as materialized (
  delete from ${parked}
  where place = any (array(
    select p.place from ${parked} as p
    ${chosen}
    for update
  )) and dead_at is not null
  returning *
)
select ${columns}
from d
${lastRedrive}
order by d.id, d.place`,
  } as const
}
