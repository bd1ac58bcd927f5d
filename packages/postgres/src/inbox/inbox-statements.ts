/* PostgreSQL has ON CONFLICT DO NOTHING and RETURNING; on MySQL and MariaDB a duplicate is an error of a plain INSERT. */
import { claimBatchStatement, turnOf } from './inbox-batch-statements.ts'

/** Milliseconds since 1970 as text, so that no type parser of the user changes the value. */
const PROCESSED_AT =
  "pg_catalog.floor(pg_catalog.date_part('epoch', nullif(nullif(processed_at, 'infinity'::timestamptz), '-infinity'::timestamptz)) * 1000::double precision)::bigint::text as processed_at"

/**
 * All statements on the inbox table. `schema` is quoted.
 *
 * A claim is INSERT … DO NOTHING instead of DO UPDATE … WHERE expired. The latter would lock the row of a live
 * duplicate, which takes a transaction id and writes WAL, and two transactions with the same duplicates in opposite
 * order would deadlock.
 */
export function inboxStatements(schema: string) {
  const inbox = `${schema}.inbox`
  const expiry = 'pg_catalog.clock_timestamp() + $4::interval'
  return {
    /**
     * Writes a row if there is no claim of the key. Waits for another transaction with an open claim of the key. Has no
     * RETURNING, which is faster.
     */
    claim: `
insert into ${inbox} (consumer, key, correlation_id, processed_at, expires_at)
values ($1, $2, $3, pg_catalog.clock_timestamp(), ${expiry})
on conflict (consumer, key) do nothing`,

    /** Like `claim`, with a result and the hash of the content. */
    claimWith: `
insert into ${inbox} (consumer, key, correlation_id, processed_at, expires_at, result, content_hash)
values ($1, $2, $3, pg_catalog.clock_timestamp(), ${expiry}, $5, pg_catalog.decode($6, 'hex'))
on conflict (consumer, key) do nothing`,

    /**
     * Like `claimWith`, but never waits for another transaction that has claimed the key with this statement: that transaction holds
     * the lock of the key, and nothing is written. `turn` distinguishes this from a key that has a claim. A statement that answers
     * both needs a CTE, whose planning costs the server more than the insertion.
     */
    claimReported: `
insert into ${inbox} (consumer, key, correlation_id, processed_at, expires_at, result, content_hash)
select $1::text, $2::text, $3::text, pg_catalog.clock_timestamp(), ${expiry}, $5::text, pg_catalog.decode($6, 'hex')
where ${turnOf(schema, '$2::text')}
on conflict (consumer, key) do nothing`,

    /** Locks the key as `claimReported` does, also for a transaction that has the lock already. */
    turn: `
select ${turnOf(schema, '$2::text')}::text as free`,

    /**
     * Limits how long statements wait for locks, until `unbind`, or until the transaction or savepoint is rolled back.
     * Returns the previous setting.
     */
    bind: `
select pg_catalog.current_setting('lock_timeout') as before, pg_catalog.set_config('lock_timeout', $1, true) as bound`,

    unbind: `
select pg_catalog.set_config('lock_timeout', $1, true) as bound`,

    /** Uses clock_timestamp(), because now() does not advance in a long transaction. */
    read: `
select (expires_at > pg_catalog.clock_timestamp())::text as live, ${PROCESSED_AT}, correlation_id, result,
  pg_catalog.encode(content_hash, 'hex') as content_hash
from ${inbox}
where consumer = $1 and key = $2`,

    /**
     * Takes over an expired claim. If several statements try at the same time, one of them gets the row; for the
     * others, the claim is live again.
     */
    renew: `
update ${inbox}
set correlation_id = $3, processed_at = pg_catalog.clock_timestamp(), expires_at = ${expiry}, result = null, content_hash = null
where consumer = $1 and key = $2 and expires_at <= pg_catalog.clock_timestamp()`,

    /** Like `renew`, with a result and the hash of the content. */
    renewWith: `
update ${inbox}
set correlation_id = $3, processed_at = pg_catalog.clock_timestamp(), expires_at = ${expiry}, result = $5, content_hash = pg_catalog.decode($6, 'hex')
where consumer = $1 and key = $2 and expires_at <= pg_catalog.clock_timestamp()`,

    /** This transaction has won the claim, so no other transaction can change its row. */
    saveResult: `
update ${inbox}
set result = $3
where consumer = $1 and key = $2`,

    extend: `
update ${inbox}
set processed_at = pg_catalog.clock_timestamp(), expires_at = ${expiry}
where consumer = $1 and key = $2 and result = $3`,

    claimBatch: claimBatchStatement(schema, { extras: false, reported: false }),

    /** Like `claimBatch`, with results and hashes of contents. */
    claimBatchWith: claimBatchStatement(schema, { extras: true, reported: false }),

    /** Like `claimBatchWith`, but never waits for a transaction that has claimed a key in this way. */
    claimBatchReported: claimBatchStatement(schema, { extras: true, reported: true }),

    /**
     * Counts the claims that this transaction has written and that still exist. A visible row whose transaction is
     * still in progress was written by this transaction. The row contains only the lower half of a transaction id. That
     * id may belong to a savepoint, and is then never lower than the id of the whole transaction.
     */
    held: `
select pg_catalog.count(*)::text as held
from ${inbox} as claimed
cross join (select pg_catalog.pg_current_xact_id_if_assigned()::text::bigint as id) as own
cross join lateral (
  select (claimed.xmin::text::bigint - own.id % 4294967296 + 4294967296) % 4294967296 as distance
) as after
where claimed.consumer = $1 and claimed.key = any($2::text[])
  and case when after.distance < 2147483648
    then pg_catalog.pg_xact_status((own.id + after.distance)::text::pg_catalog.xid8) = 'in progress'
  end`,

    find: `
select 'true' as live
from ${inbox}
where consumer = $1 and key = $2 and expires_at > pg_catalog.clock_timestamp()`,

    /** Milliseconds since 1970 as text. Not now(), which is the time when the transaction began. */
    clock: `
select pg_catalog.floor(pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) * 1000::double precision)::bigint::text as now`,

    remove: `
delete from ${inbox}
where consumer = $1 and key = $2
returning (expires_at > pg_catalog.clock_timestamp())::text as live`,

    removeBatch: `
delete from ${inbox}
where consumer = $1 and key = any($2::text[])`,
  } as const
}
