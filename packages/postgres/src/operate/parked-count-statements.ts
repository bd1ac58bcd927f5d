/*
 * PostgreSQL computes since when a message has been due, which its index contains; MySQL and MariaDB have a column and its index.
 */

/** The index on this expression finds the message that has been due the longest. */
export const DUE_SINCE = 'greatest(m.created_at, m.deliver_at, m.redriven_at)'

/**
 * Counts the messages in a table of parked messages by what they wait for. The messages that are due are examined together, at most
 * $1 of them, those that have been due the longest first: a count of one kind would examine all those of the other kinds. Without
 * an order, the planner may scan the table.
 *
 * @param where a condition on the rows `m`, with `and` at its end.
 */
export function parkedCounts(table: string, where = ''): { readonly columns: string; readonly from: string } {
  const rows = `from ${table} as m where ${where}m.dead_at is null and ${DUE_SINCE}`
  return {
    columns: `due.refused::text as refused,
  due.behind::text as behind,
  due.examined::text as examined,
  (
    select pg_catalog.count(*) from (
      select ${rows} > pg_catalog.statement_timestamp() order by ${DUE_SINCE} limit $1
    ) as counted
  )::text as later`,
    from: `from (
  select pg_catalog.count(*) as examined,
    pg_catalog.count(*) filter (where m.due_at is null) as behind,
    pg_catalog.count(*) filter (where m.due_at is not null and (m.deliver_at is null or m.attempts > 0)) as refused
  from (
    select m.due_at, m.deliver_at, m.attempts
    ${rows} <= pg_catalog.statement_timestamp()
    order by ${DUE_SINCE}
    limit $1
  ) as m
) as due`,
  }
}
