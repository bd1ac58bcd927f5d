/*
 * On MySQL and MariaDB a plain INSERT reports a duplicate as an error, and a token marks the claims that a batch has
 * made. PostgreSQL has ON CONFLICT DO NOTHING and RETURNING.
 */
import type { Tables } from '../connection/identifiers.ts'
import type { ServerTraits } from '../connection/server.ts'

/** Microseconds since 1970 as text, so that neither a time zone nor an option of the driver changes the value. */
const PROCESSED_AT = "cast(timestampdiff(microsecond, '1970-01-01', i.processed_at) as char) as processed_at"

/**
 * All statements on the inbox table. `?` is replaced by a value as a literal.
 *
 * INSERT IGNORE would truncate values and swallow errors. A single claim is a plain INSERT: on a live duplicate it
 * takes only a shared lock, so that duplicates neither wait for each other nor deadlock.
 */
export function inboxStatements({ inbox }: Tables, engine: ServerTraits['engine']) {
  /** The value that the INSERT could not insert. MySQL deprecates values(), and MariaDB has no row alias. */
  const incoming = (column: string): string =>
    engine === 'mysql' ? `incoming.${column}` : `values(${column})`
  const row = '(?, ?, ?, utc_timestamp(6), utc_timestamp(6) + interval ? microsecond'
  const found = `cast(i.expires_at > utc_timestamp(6) as char) as live, ${PROCESSED_AT},
  cast(i.correlation_id as binary) as correlation_id, cast(i.result as binary) as result,
  hex(i.content_hash) as content_hash`
  /** With `extras`, claims have results and hashes of contents. */
  const claimBatch = (rows: readonly string[], extras: boolean): string => `
insert into ${inbox} (consumer, \`key\`, correlation_id, processed_at, expires_at, ${extras ? 'result, content_hash, ' : ''}claim_token)
values ${rows.join(',')}${engine === 'mysql' ? ' as incoming' : ''}
on duplicate key update
  claim_token = if(last_insert_id(length(${inbox}.consumer)) and ${inbox}.expires_at <= utc_timestamp(6), ${incoming('claim_token')}, ${inbox}.claim_token),
  correlation_id = if(${inbox}.expires_at <= utc_timestamp(6), ${incoming('correlation_id')}, ${inbox}.correlation_id),
  result = if(${inbox}.expires_at <= utc_timestamp(6), ${extras ? incoming('result') : 'null'}, ${inbox}.result),
  content_hash = if(${inbox}.expires_at <= utc_timestamp(6), ${extras ? incoming('content_hash') : 'null'}, ${inbox}.content_hash),
  processed_at = if(${inbox}.expires_at <= utc_timestamp(6), ${incoming('processed_at')}, ${inbox}.processed_at),
  expires_at = if(${inbox}.expires_at <= utc_timestamp(6), ${incoming('expires_at')}, ${inbox}.expires_at)`
  const renew = (extra: 'null' | '?'): string => `
update ${inbox} force index (primary)
set correlation_id = ?, processed_at = utc_timestamp(6), expires_at = utc_timestamp(6) + interval ? microsecond,
  result = ${extra}, content_hash = ${extra}, claim_token = null
where consumer = ? and \`key\` = ? and expires_at <= utc_timestamp(6)`
  return {
    /** Inserts a claim, or fails with 1062. Waits for an open claim of the same key in another transaction. */
    claim: `
insert into ${inbox} (consumer, \`key\`, correlation_id, processed_at, expires_at)
values ${row})`,

    /** Like `claim`, with a result and the hash of the content. */
    claimWith: `
insert into ${inbox} (consumer, \`key\`, correlation_id, processed_at, expires_at, result, content_hash)
values ${row}, ?, ?)`,

    /**
     * Reads the claim of the key. This is a locking read, because at REPEATABLE READ a plain read does not see a claim
     * that is newer than the snapshot. The read never waits, because the failed INSERT has left a shared lock on the
     * row.
     */
    read: `
select ${found}
from ${inbox} as i
where i.consumer = ? and i.\`key\` = ?
lock in share mode`,

    /**
     * For MySQL: reads the claim of the key, or fails with 3572 while another transaction has an open claim of the key.
     */
    readNoWait: `
select ${found}
from ${inbox} as i
where i.consumer = ? and i.\`key\` = ?
for share nowait`,

    /**
     * Takes over an expired claim. If several statements try at the same time, one of them gets the row. A matching row
     * is always changed, so that the count is the same with and without the driver's FOUND_ROWS flag. The primary key
     * is forced: if many claims have expired, MariaDB may search by expires_at instead, and lock all of them.
     */
    renew: renew('null'),

    renewWith: renew('?'),

    /** Saves the result. This transaction has won the claim, so no other transaction can change its row. */
    saveResult: `
update ${inbox} force index (primary)
set result = ?
where consumer = ? and \`key\` = ?`,

    /** A matching row is always changed, so that the count is the same with and without FOUND_ROWS. */
    extend: `
update ${inbox} force index (primary)
set processed_at = utc_timestamp(6), expires_at = utc_timestamp(6) + interval ? microsecond
where consumer = ? and \`key\` = ? and cast(result as binary) = ?`,

    /** Deletes a claim that turned out to have been written outside of a transaction. */
    takeBack: `
delete from ${inbox}
where consumer = ? and \`key\` = ?`,

    takeBackBatch: `
delete from ${inbox}
where consumer = ? and claim_token = ? and \`key\` in (?)`,

    claimBatchRow: `${row}, ?)`,

    /**
     * Makes many claims with one statement: inserts new claims, takes over expired ones, and leaves live ones
     * unchanged. Rows are in the order of their keys, and an existing key is locked exclusively at once, so that all
     * batches lock in one order: the shared lock of a plain INSERT would deadlock on expired claims.
     *
     * LAST_INSERT_ID with an argument that is not constant is evaluated only for existing keys, so the answer to the
     * INSERT shows whether all claims were new. The row counts cannot show this, because they depend on FOUND_ROWS.
     * expires_at is assigned last, because MySQL assigns from left to right.
     */
    claimBatch: (rows: readonly string[]) => claimBatch(rows, false),

    claimBatchWithRow: `${row}, ?, ?, ?)`,

    claimBatchWith: (rows: readonly string[]) => claimBatch(rows, true),

    /**
     * Reads which claims this batch has made. {@link claimBatch} has locked all rows. Each row is looked up by its
     * whole key, because a scan would lock rows of other transactions, and wait for them. The values are the token and
     * the keys in hexadecimal.
     */
    readBatch: `
select hex(i.\`key\`) as \`key\`, cast(i.claim_token <=> ? as char) as is_own, ${PROCESSED_AT},
  cast(i.correlation_id as binary) as correlation_id, cast(i.result as binary) as result,
  hex(i.content_hash) as content_hash
from json_table(?, '$[*]' columns (hexadecimal varchar(1024) character set ascii path '$')) as asked
straight_join ${inbox} as i force index (primary) on i.consumer = ? and i.\`key\` = unhex(asked.hexadecimal)
${engine === 'mysql' ? 'for share of i' : 'lock in share mode'}`,

    /** This is a plain read, which takes no lock. */
    find: `
select '1' as live
from ${inbox}
where consumer = ? and \`key\` = ? and expires_at > utc_timestamp(6)`,

    /** Microseconds since 1970 as text. */
    clock: "select cast(timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) as char) as now",

    removeLive: `
delete i
from ${inbox} as i force index (primary)
where i.consumer = ? and i.\`key\` = ? and i.expires_at > utc_timestamp(6)`,

    removeExpired: `
delete from ${inbox}
where consumer = ? and \`key\` = ?`,

    /**
     * The values are the keys in hexadecimal and the consumer. Each claim is looked up by its whole key, because a list
     * (IN) may scan the table, and wait for rows of other transactions.
     */
    removeBatch: `
delete i
from json_table(?, '$[*]' columns (hexadecimal varchar(1024) character set ascii path '$')) as asked
straight_join ${inbox} as i force index (primary) on i.consumer = ? and i.\`key\` = unhex(asked.hexadecimal)`,
  } as const
}
