/* PostgreSQL makes a batch of claims with one statement; MySQL and MariaDB need a token to find their own claims. */
import { crc32 } from 'node:zlib'

/**
 * SQL that tries to lock a claim's key until the transaction ends; false while another transaction has the lock. The
 * seed of the hash separates the inboxes of different schemas in one database.
 */
export function turnOf(schema: string, key: string): string {
  return `pg_catalog.pg_try_advisory_xact_lock(pg_catalog.hashtextextended(pg_catalog.concat_ws(pg_catalog.chr(31), $1::text, ${key}) collate "C", ${crc32(schema)}))`
}

/**
 * Makes many claims with one statement: inserts new claims, takes over expired ones, and reports live ones. All batches
 * lock in one order: `given` has the keys in order, new claims are inserted before the first expired one is locked, and
 * a lateral subquery that locks a row cannot be merged into a join of another order. The outcome 'unsettled' means that
 * another transaction interfered, and that the statement must be run again.
 *
 * Only keys that were not inserted are looked up, each by the primary key. A join with the inbox would leave the choice
 * to the planner, which reads all claims of the consumer while the table has no statistics; measured: half the rate.
 *
 * @param variant with `extras`, claims have results and hashes of contents. With `reported`, a key is not claimed while
 *   another transaction has the lock of the key.
 */
export function claimBatchStatement(
  schema: string,
  { extras, reported }: { readonly extras: boolean; readonly reported: boolean },
): string {
  const inbox = `${schema}.inbox`
  const expiry = 'pg_catalog.clock_timestamp() + $4::interval'
  return `
with input as materialized (
  select n, key, correlation_id${extras ? `, result, pg_catalog.decode(content_hash, 'hex') as content_hash` : ''}${reported ? `, ${turnOf(schema, 'key')} as free` : ''}
  from rows from (${columnsOf(extras)}) with ordinality as given (key, correlation_id${extras ? ', result, content_hash' : ''}, n)
  order by n
), inserted as (
  insert into ${inbox} (consumer, key, correlation_id, processed_at, expires_at${extras ? ', result, content_hash' : ''})
  select $1, key, correlation_id, pg_catalog.clock_timestamp(), ${expiry}${extras ? ', result, content_hash' : ''} from input${reported ? ' where free' : ''}
  on conflict (consumer, key) do nothing
  returning key, processed_at
), present as materialized (
  select input.*, held.expires_at, held.processed_at, held.correlation_id as held_correlation_id${extras ? ', held.result as held_result, held.content_hash as held_content_hash' : ''}
  from (
    select * from input
    where not exists (select from inserted where inserted.key = input.key collate "C")
    offset 0
  ) as input
  cross join lateral (
    select * from ${inbox} as held where held.consumer = $1 and held.key = input.key collate "C" offset 0
  ) as held
), expired as materialized (
  select due.key, due.correlation_id${extras ? ', due.result, due.content_hash' : ''}
  from (
    select * from present
    where expires_at <= pg_catalog.clock_timestamp()${reported ? ' and free' : ''}
    order by n
  ) as due
  cross join lateral (
    select from ${inbox} as held
    where held.consumer = $1 and held.key = due.key collate "C" and held.expires_at <= pg_catalog.clock_timestamp()
    for update of held
  ) as held
), renewed as (
  update ${inbox} as held
  set correlation_id = expired.correlation_id, processed_at = pg_catalog.clock_timestamp(), expires_at = ${expiry},
      result = ${extras ? 'expired.result' : 'null'}, content_hash = ${extras ? 'expired.content_hash' : 'null'}
  from expired
  where held.consumer = $1 and held.key = expired.key collate "C"
  returning held.key, held.processed_at
)
select input.key,
  case
    when inserted.key is not null or renewed.key is not null then 'won'
    when present.expires_at > pg_catalog.clock_timestamp() then 'duplicate'${reported ? "\n    when not input.free then 'in-flight'" : ''}
    else 'unsettled'
  end as state,
  pg_catalog.floor(pg_catalog.date_part('epoch', nullif(nullif(coalesce(inserted.processed_at, renewed.processed_at, present.processed_at), 'infinity'::timestamptz), '-infinity'::timestamptz)) * 1000::double precision)::bigint::text as processed_at,
  present.held_correlation_id as correlation_id${extras ? ", present.held_result as result, pg_catalog.encode(present.held_content_hash, 'hex') as content_hash" : ''}
from input
left join inserted on inserted.key = input.key collate "C"
left join renewed on renewed.key = input.key collate "C"
left join present on present.key = input.key collate "C"`
}

/**
 * The arrays of a batch: keys and correlation ids, and with `extras` also results, and hashes of contents in
 * hexadecimal.
 */
function columnsOf(extras: boolean): string {
  const arrays = extras ? ['$2', '$3', '$5', '$6'] : ['$2', '$3']
  return arrays.map((array) => `pg_catalog.unnest(${array}::text[])`).join(', ')
}
