import type { Pool } from 'pg'
import type { IdOrder } from '../deduplication-variants.ts'

/**
 * Live claims of the last days, inserted in the order of their time, under keys that look like UUIDv7: the content of a
 * table that has been in use for some days.
 */
export async function fillClaims(pool: Pool, schema: string, count: number): Promise<void> {
  await pool.query(
    `insert into ${schema}.inbox (consumer, key, processed_at, expires_at)
     select 'billing',
       substr(ms, 1, 8) || '-' || substr(ms, 9, 4) || '-7' || substr(random, 1, 3) || '-8' || substr(random, 4, 3) || '-' ||
         substr(random, 7, 12),
       at, at + interval '7 days'
     from (
       select at, lpad(to_hex((date_part('epoch', at) * 1000)::bigint), 12, '0') as ms, md5(n::text) as random
       from (
         select n, now() - interval '6 days' + n * (interval '6 days' / greatest(1, $1::integer)) as at
         from generate_series(1, $1::integer) as n
       ) as times
     ) as parts`,
    [count],
  )
  await pool.query(`vacuum analyze ${schema}.inbox`)
}

/** Live ids of deduplicated sends to the topic `orders`, as many as a long window keeps. */
export async function fillSends(pool: Pool, schema: string, count: number, order: IdOrder): Promise<void> {
  const id = order === 'ordered' ? "lpad(n::text, 32, '0')" : 'md5(n::text)'
  await pool.query(
    `insert into ${schema}.inbox (consumer, key, processed_at, expires_at, result)
     select '@publish', '["orders","' || ${id} || '"]', at, at + interval '15 days', md5(n::text)
     from generate_series(1, $1::integer) as n
     cross join lateral (select now() - interval '6 days' + n * (interval '6 days' / greatest(1, $1::integer)) as at) as times`,
    [count],
  )
  await pool.query(`vacuum analyze ${schema}.inbox`)
}
