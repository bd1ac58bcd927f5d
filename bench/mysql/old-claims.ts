import type { Pool } from 'mysql2/promise'
import type { IdOrder } from '../deduplication-variants.ts'

const AT_ONCE = 10_000

/** {@link AT_ONCE} numbers that begin at the parameter. A recursive query would end at the servers' limit of 1000. */
const NUMBERS = `
  with digits (d) as (
    select 0 union all select 1 union all select 2 union all select 3 union all select 4
    union all select 5 union all select 6 union all select 7 union all select 8 union all select 9)
  select ? + a.d * 1000 + b.d * 100 + c.d * 10 + e.d as n
  from digits as a cross join digits as b cross join digits as c cross join digits as e`

/**
 * Live claims of the last days, inserted in the order of their time, under keys that look like UUIDv7: the content of a
 * table that has been in use for some days.
 */
export async function fillClaims(pool: Pool, prefix: string, count: number): Promise<void> {
  for (let from = 0; from < count; from += AT_ONCE) {
    await pool.query(
      `insert into ${prefix}inbox (consumer, \`key\`, processed_at, expires_at)
       select 'billing',
         concat(substr(ms, 1, 8), '-', substr(ms, 9, 4), '-7', substr(random, 1, 3), '-8', substr(random, 4, 3), '-',
           substr(random, 7, 12)),
         at, at + interval 7 day
       from (
         select at, lpad(hex(timestampdiff(microsecond, '1970-01-01', at) div 1000), 12, '0') as ms, left(sha2(n, 256), 32) as random
         from (
           select n, utc_timestamp(6) - interval 6 day + interval (n * ?) microsecond as at
           from (${NUMBERS}) as numbers where n < ? order by n
         ) as times
       ) as parts`,
      [Math.floor((6 * 86_400_000_000) / count), from, count],
    )
  }
  await pool.query(`analyze table ${prefix}inbox`)
}

/** Live ids of deduplicated sends to the topic `orders`, as many as a long window keeps. */
export async function fillSends(pool: Pool, prefix: string, count: number, order: IdOrder): Promise<void> {
  const id = order === 'ordered' ? "lpad(n, 32, '0')" : 'left(sha2(n, 256), 32)'
  for (let from = 0; from < count; from += AT_ONCE) {
    await pool.query(
      `insert into ${prefix}inbox (consumer, \`key\`, processed_at, expires_at, result)
       select '@publish', concat('["orders","', ${id}, '"]'), at, at + interval 15 day, left(sha2(n, 256), 32)
       from (
         select n, utc_timestamp(6) - interval 6 day + interval (n * ?) microsecond as at
         from (${NUMBERS}) as numbers where n < ? order by n
       ) as times`,
      [Math.floor((6 * 86_400_000_000) / count), from, count],
    )
  }
  await pool.query(`analyze table ${prefix}inbox`)
}
