/* Only PostgreSQL can notify. */

/** What `notifyIfSafe` answers when it has not notified. */
export const UNSAFE = {
  prepared: 'prepared transactions',
  timeout: 'lock timeout',
  full: 'full queue',
} as const

export const notifyStatements = {
  /** Notifies when the transaction commits; PostgreSQL merges equal notifications of a transaction. */
  notify: 'select pg_catalog.pg_notify($1, $2)',

  /** Without these privileges, `notifyIfSafe` would abort the transaction, even if it did not notify. */
  mayNotify: `
select (
  pg_catalog.has_function_privilege('pg_catalog.pg_notify(text, text)', 'execute')
  and pg_catalog.has_function_privilege('pg_catalog.pg_notification_queue_usage()', 'execute')
)::text as allowed`,

  /**
   * Sends the notifications ($1: channels, $2: payloads) when the transaction commits, unless they could let the transaction fail:
   * PREPARE TRANSACTION is refused after a NOTIFY; COMMIT waits for the lock of all notifying transactions, for which a lock timeout
   * counts; and COMMIT fails when the queue of notifications is full. CASE evaluates only the branch that it takes.
   */
  notifyIfSafe: `
select case
  when pg_catalog.current_setting('max_prepared_transactions') <> '0' then '${UNSAFE.prepared}'
  when pg_catalog.current_setting('lock_timeout') <> '0' then '${UNSAFE.timeout}'
  when pg_catalog.pg_notification_queue_usage() >= 0.5::double precision then '${UNSAFE.full}'
  else (
    select pg_catalog.count(pg_catalog.pg_notify(given.channel, given.payload))::text
    from rows from (pg_catalog.unnest($1::text[]), pg_catalog.unnest($2::text[])) as given (channel, payload)
  )
end as answer`,
} as const
