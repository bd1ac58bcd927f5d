import type { Pool } from 'mysql2/promise'
import type { IdOrder } from '../deduplication-variants.ts'

const AT_ONCE = 10_000

/**
 * Live claims of the last days, inserted in the order of their time, under keys that look like UUIDv7: what a table
 * holds that has been in use for a while.
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
         select at, lpad(hex(timestampdiff(microsecond, '1970-01-01', at) div 1000), 12, '0') as ms, md5(n) as random
         from (
           with recursive numbers (n) as (select ? union all select n + 1 from numbers where n + 1 < ?)
           select n, utc_timestamp(6) - interval 6 day + interval (n * ?) microsecond as at from numbers
         ) as times
       ) as parts`,
      [from, Math.min(count, from + AT_ONCE), Math.floor((6 * 86_400_000_000) / Math.max(1, count))],
    )
  }
  await pool.query(`analyze table ${prefix}inbox`)
}

/** Live ids of deduplicated sends to the topic `orders`, as many as a long window leaves. */
export async function fillSends(pool: Pool, prefix: string, count: number, order: IdOrder): Promise<void> {
  const id = order === 'ordered' ? "lpad(n, 32, '0')" : 'md5(n)'
  for (let from = 0; from < count; from += AT_ONCE) {
    await pool.query(
      `insert into ${prefix}inbox (consumer, \`key\`, processed_at, expires_at, result)
       select '@publish', concat('["orders","', ${id}, '"]'), at, at + interval 15 day, md5(n)
       from (
         with recursive numbers (n) as (select ? union all select n + 1 from numbers where n + 1 < ?)
         select n, utc_timestamp(6) - interval 6 day + interval (n * ?) microsecond as at from numbers
       ) as times`,
      [from, Math.min(count, from + AT_ONCE), Math.floor((6 * 86_400_000_000) / Math.max(1, count))],
    )
  }
  await pool.query(`analyze table ${prefix}inbox`)
}
