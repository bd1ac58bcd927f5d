/*
 * MySQL and MariaDB have a column that says since when a message has been due, and its index; PostgreSQL computes it.
 */

/**
 * Counts the messages in a table of parked messages by what they wait for. The messages that are due are examined together, up to a
 * limit, those that have been due the longest first: a count of one kind would examine all those of the other kinds. Dead letters
 * have no `due_since`.
 *
 * @param index the index that contains `due_since`.
 * @param where a condition on the rows `m`, with `and` at its end.
 */
export function parkedCounts(
  table: string,
  index: string,
  where = '',
): { readonly columns: string; readonly from: string } {
  const rows = `from ${table} as m force index (${index}) where ${where}m.due_since`
  return {
    columns: `cast(due.refused as char) as refused,
  cast(due.behind as char) as behind,
  cast(due.examined as char) as examined,
  (select cast(count(*) as char) from (select 1 ${rows} > utc_timestamp(6) limit ?) as counted) as later`,
    from: `from (
  select count(*) as examined,
    count(case when m.due_at is null then 1 end) as behind,
    count(case when m.due_at is not null and (m.deliver_at is null or m.attempts > 0) then 1 end) as refused
  from (
    select m.due_at, m.deliver_at, m.attempts
    ${rows} <= utc_timestamp(6)
    order by m.due_since
    limit ?
  ) as m
) as due`,
  }
}
