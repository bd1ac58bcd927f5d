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
 * lock in one order, because keys are sorted, and because the count forces every plan to insert before it locks. The
 * outcome 'unsettled' means that another transaction interfered, and that the statement must be run again.
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
  select key, correlation_id${extras ? `, result, pg_catalog.decode(content_hash, 'hex') as content_hash` : ''}${reported ? `, ${turnOf(schema, 'key')} as free` : ''}
  from rows from (${columnsOf(extras)}) with ordinality as given (key, correlation_id${extras ? ', result, content_hash' : ''}, n)
  order by n
), inserted as (
  insert into ${inbox} (consumer, key, correlation_id, processed_at, expires_at${extras ? ', result, content_hash' : ''})
  select $1, key, correlation_id, pg_catalog.clock_timestamp(), ${expiry}${extras ? ', result, content_hash' : ''} from input${reported ? ' where free' : ''}
  on conflict (consumer, key) do nothing
  returning key, processed_at
), expired as materialized (
  select held.key, input.correlation_id${extras ? ', input.result, input.content_hash' : ''}
  from ${inbox} as held join input on held.key = input.key collate "C"
  where held.consumer = $1 and held.expires_at <= pg_catalog.clock_timestamp()${reported ? ' and input.free' : ''}
    and (select pg_catalog.count(*) from inserted) >= 0
  order by held.key
  for update of held
), renewed as (
  update ${inbox} as held
  set correlation_id = expired.correlation_id, processed_at = pg_catalog.clock_timestamp(), expires_at = ${expiry},
      result = ${extras ? 'expired.result' : 'null'}, content_hash = ${extras ? 'expired.content_hash' : 'null'}
  from expired
  where held.consumer = $1 and held.key = expired.key
  returning held.key, held.processed_at
)
select input.key,
  case
    when inserted.key is not null or renewed.key is not null then 'won'
    when held.expires_at > pg_catalog.clock_timestamp() then 'taken'${reported ? "\n    when not input.free then 'in-flight'" : ''}
    else 'unsettled'
  end as state,
  pg_catalog.floor(pg_catalog.date_part('epoch', nullif(nullif(coalesce(inserted.processed_at, renewed.processed_at, held.processed_at), 'infinity'::timestamptz), '-infinity'::timestamptz)) * 1000::double precision)::bigint::text as processed_at,
  held.correlation_id${extras ? ", held.result, pg_catalog.encode(held.content_hash, 'hex') as content_hash" : ''}
from input
left join inserted on inserted.key = input.key collate "C"
left join renewed on renewed.key = input.key collate "C"
left join ${inbox} as held on held.consumer = $1 and held.key = input.key collate "C"`
}

/**
 * The arrays of a batch: keys and correlation ids, and with `extras` also results, and hashes of contents in
 * hexadecimal.
 */
function columnsOf(extras: boolean): string {
  const arrays = extras ? ['$2', '$3', '$5', '$6'] : ['$2', '$3']
  return arrays.map((array) => `pg_catalog.unnest(${array}::text[])`).join(', ')
}
