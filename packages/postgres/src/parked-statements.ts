import { boundedPayload, heldLease, messageColumns } from './relay-statements.ts'

/** Every statement on the table of parked messages that a relay runs. `schema` is quoted. */
export function parkedStatements(schema: string) {
  const parked = `${schema}.parked`
  const columns = `p.place::text as seq, p.attempts::text as attempts,
  (p.order_key is not null)::text as ordered, ${messageColumns('p')}`
  const held = heldLease(schema)
  /**
   * Rows of a key from a place on, in order. Compared as rows: with shard and key as equalities the planner may walk along
   * the places of all keys, or sort all of this one.
   */
  const ofKey = (shard: string, key: string, from: string): string =>
    `f.order_key is not null and (f.shard, f.order_key, f.place) ${from.replace('(', `(${shard}::smallint, ${key}, `)}
      and (f.shard, f.order_key) <= (${shard}::smallint, ${key})`
  const inOrder = 'order by f.shard, f.order_key, f.place'
  /** Their addresses: each by a look-up of its own, where a join may scan. Nobody else changes what is not dead. */
  const addressesOf = (places: string): string => `
    select found.ctid
    from held cross join ${places}
    cross join lateral (select f.ctid from ${parked} as f where f.place = wanted.place limit 1) as found
  `
  return {
    /**
     * What is due, longest first, and who comes first in its key: if that is another, it was due before that one was put
     * back.
     */
    due: `
select p.place::text as place, p.order_key, p.attempts::text as attempts,
  (
    select f.place::text from ${parked} as f
    where ${ofKey('$1', 'p.order_key', '> (0)')}
    ${inOrder}
    limit 1
  ) as first
from ${parked} as p
where p.shard = $1 and p.due_at <= statement_timestamp()
order by p.due_at
limit $2`,

    /** It waits behind its predecessor, like the others. */
    follow: `
with ${held}, following as (
  update ${parked} as p
  set due_at = null
  from held
  where p.place = any ($4::bigint[]) and p.dead_at is null
)
select true as held from held`,

    /** Single messages. */
    readAlone: `
select ${columns},
  ${boundedPayload('p', '$2')}, null as later
from ${parked} as p
where p.place = any ($1::bigint[])`,

    /**
     * Messages of keys that go on ($2), from a place each ($3), at most $4 of a key. Where one of them has to wait longer,
     * because it was refused before, `later` says so.
     */
    readOnward: `
select ${columns},
  ${boundedPayload('p', '$5')},
  case when p.due_at > statement_timestamp() then 'true' end as later
from unnest($2::text[], $3::bigint[]) with ordinality as onward (order_key, place, n)
cross join lateral (
  select * from ${parked} as f
  where ${ofKey('$1', 'onward.order_key', '>= (onward.place)')}
  ${inOrder}
  limit $4
) as p
order by onward.n, p.place`,

    /** The payloads that were only measured. */
    readPayloads: `
select p.place::text as seq, encode(p.payload, 'hex') as payload
from ${parked} as p
where p.place = any ($1::bigint[])`,

    /**
     * Deletes what was accepted ($4), keeps what was refused ($5 to $9), and makes due who comes next ($10 and $11: a key,
     * and the last place of it that is through). $12 is the shard.
     */
    settle: `
with ${held}, settled as (
  delete from ${parked} as p
  where p.ctid = any (array(${addressesOf('unnest($4::bigint[]) as wanted (place)')})) and p.dead_at is null
), kept as (
  update ${parked} as p
  set attempts = v.attempts,
    error = v.error,
    due_at = clock_timestamp() + v.retry_ms * interval '1 millisecond',
    dead_at = case when v.dead then clock_timestamp() end,
    order_key = case when not v.dead then p.order_key end
  from unnest($5::bigint[], $6::integer[], $7::double precision[], $8::boolean[], $9::text[])
    as v (place, attempts, retry_ms, dead, error)
  where p.ctid = any (array(${addressesOf('unnest($5::bigint[]) as wanted (place)')})) and p.place = v.place and p.dead_at is null
), released as (
  update ${parked}
  set due_at = clock_timestamp()
  where place = any (array(
    select next.place
    from held
    cross join unnest($10::text[], $11::bigint[]) as through (order_key, place)
    cross join lateral (
      select f.place, f.due_at from ${parked} as f
      where ${ofKey('$12', 'through.order_key', '> (through.place)')}
      ${inOrder}
      limit 1
    ) as next
    where next.due_at is null
  ))
)
select true as held from held`,
  } as const
}
