import { sql, type RawBuilder, type SqlBool } from 'kysely'

/** A value, or the column of the time. */
type Value = RawBuilder<unknown>
type Condition = RawBuilder<SqlBool>

/**
 * The SQL text of `applyIfNewer` that all databases share. In the SQL mode HIGH_NOT_PRECEDENCE of MySQL and MariaDB, NOT binds
 * tighter than a comparison, so its operand is in parentheses.
 */
export const timeStatements = {
  always: () => sql<SqlBool>`1 = 1`,
  never: () => sql<SqlBool>`1 = 0`,
  isAtMost: (value: Value, latest: Value) => sql<SqlBool>`${value} <= ${latest}`,
  both: (one: Condition, other: Condition) => sql<SqlBool>`${one} and ${other}`,
  insertable: (timely: Condition, rounds: Value) => sql<SqlBool>`${timely} and not (${rounds})`,
  newer: (time: Value, value: Value, rounds: Value) =>
    sql<SqlBool>`((${time} is null or ${time} < ${value}) and not (${rounds}))`,

  /** The reason why the row was not updated. */
  verdict: (timely: Condition, rounds: Value, time: Value, value: Value) =>
    sql<string>`case when not (${timely}) then 'ahead' when ${rounds} then 'rounds'
      when ${time} is null or ${time} < ${value} then 'newer' else 'stale' end`,

  /** The reason why no row was inserted. */
  reason: (timely: Condition, insertable: Condition) =>
    sql`case when not (${timely}) then 'ahead' when not (${insertable}) then 'rounds' else 'none' end`,

  count: () => sql`count(*)`,
} as const
