/*
 * MySQL and MariaDB return counts, have no infinite times, and show by LAST_INSERT_ID whether an INSERT found a row;
 * PostgreSQL returns what a statement wrote.
 */
import type { RowCondition } from '@txbox/core/ports'

/** The names and numbers that the text of a statement depends on. All names are quoted. */
export interface RowParts {
  readonly table: string
  readonly key: readonly string[]
  /** The column of the condition. */
  readonly column: string
  readonly is: RowCondition['is']
  /** The number of states of `'one of'`. */
  readonly states?: number
  /** Whether a time is compared with the server's clock. */
  readonly isLimited?: boolean
  /** The number of decimals of a time. */
  readonly decimals?: number
}
export interface ChangeParts extends RowParts {
  readonly set: readonly string[]
}
export interface InsertParts extends ChangeParts {
  readonly insert: readonly string[]
}

/**
 * The values to which LAST_INSERT_ID is set if the new row collided with the row of this key, or with another row. No
 * AUTO_INCREMENT column reaches these values.
 */
export const SAME_ROW = 2 ** 53 - 1
export const OTHER_ROW = SAME_ROW - 1

/**
 * Statements on tables of the user. The store passes the values in the order in which the texts have their placeholders. In
 * the SQL mode HIGH_NOT_PRECEDENCE, NOT binds tighter than a comparison, so its operand is in parentheses.
 */
export const rowStatements = {
  update: (parts: ChangeParts) => `
update ${parts.table}
set ${[...parts.set.map((name) => `${name} = ?`), `${parts.column} = ${written(parts)}`].join(', ')}
where ${hasKey(parts)} and ${holds(parts)}`,

  delete: (parts: RowParts) => `
delete from ${parts.table}
where ${hasKey(parts)} and ${holds(parts)}`,

  /**
   * Inserts or updates a row. The row count does not distinguish an inserted row (1) from an unchanged row (1, or 0
   * without the driver's FOUND_ROWS flag); only an updated row counts as 2. So the statement calls LAST_INSERT_ID with an
   * argument that is not constant, which is evaluated only for existing rows; the first call removes the mark of an earlier
   * statement. The condition's column is assigned last, because the server assigns from left to right and the conditions
   * read the old value.
   */
  insertOrUpdate: (parts: InsertParts) => `
insert into ${parts.table} (${[...parts.key, ...parts.insert, parts.column].join(', ')})
select ${[...parts.key, ...parts.insert].map(() => '?, ').join('')}${written(parts)}
where last_insert_id(0) = 0 and ${insertable(parts)}
on duplicate key update ${[
    ...parts.set.map((name) => `${name} = if(${hasKey(parts)} and ${holds(parts)}, ?, ${name})`),
    `${parts.column} = if(last_insert_id(if(${hasKey(parts)}, ${SAME_ROW}, ${OTHER_ROW})) and ${hasKey(parts)} and ${holds(parts)}, ${written(parts)}, ${parts.column})`,
  ].join(',\n  ')}`,

  /** For libraries that do not return the value to which the previous statement set LAST_INSERT_ID. */
  mark: 'select cast(last_insert_id() as char) as mark',

  look: (parts: RowParts) => `
select ${parts.is === 'older' ? verdict(parts) : rowStatements.text(parts.column)} as found
from ${parts.table}
where ${hasKey(parts)}
limit 2
for update`,

  refusal: (parts: RowParts) => `
select case when not (${timely(parts)}) then 'ahead' when ${roundsInsert(parts)} then 'rounds' else 'newer' end as found`,

  /**
   * The columns of a table. MySQL has the type json; MariaDB has a constraint of the same name instead, and runs what MySQL
   * takes for a comment.
   */
  columns: `
select hex(convert(c.column_name using utf8mb4)) as name, cast(c.data_type as char) as type,
  cast(c.column_type as char) as declared, cast(c.numeric_precision as char) as digits,
  cast(c.numeric_scale as char) as scale, cast(0 /*M! + exists (
    select 1
    from information_schema.check_constraints as k
    where k.constraint_schema = c.table_schema and k.table_name = c.table_name
      and k.check_clause = concat('json_valid(\`', c.column_name, '\`)')
  ) */ as char) as is_json
from information_schema.columns as c
where c.table_schema = coalesce(?, database()) and c.table_name = ?
order by c.ordinal_position`,

  indexes: `
select hex(convert(index_name using utf8mb4)) as name, hex(convert(column_name using utf8mb4)) as part
from information_schema.statistics
where table_schema = coalesce(?, database()) and table_name = ? and non_unique = 0`,

  /**
   * Reads the columns, and their number: a column that was added since the columns were asked for must not be missing.
   *
   * @param columns expressions, with their names.
   */
  read: ({ table, key }: Pick<RowParts, 'table' | 'key'>, columns: readonly string[], isLocked: boolean) => `
select ${columns.join(', ')}, (
  select cast(count(*) as char)
  from information_schema.columns
  where table_schema = coalesce(?, database()) and table_name = ?
) as columns
from ${table}
where ${hasKey({ key })}
limit 2${isLocked ? '\nfor update' : ''}`,

  /** In hexadecimal, so that the character set of the connection makes no difference. */
  text: (column: string) => `hex(convert(cast(${column} as char) using utf8mb4))`,
  hex: (column: string) => `hex(${column})`,
  digits: (column: string) => `cast(${column} as char)`,
  bits: (column: string) => `cast(${column} + 0 as char)`,
  /** As text, a FLOAT has six digits. */
  double: (column: string) => `cast(${column} + 0e0 as char)`,
} as const

function hasKey({ key }: Pick<RowParts, 'key'>): string {
  return key.map((name) => `${name} = ?`).join(' and ')
}

function written({ is }: RowParts): string {
  return is === 'older' ? time : '?'
}

const time = 'cast(? as datetime(6))'

function holds(parts: RowParts): string {
  const { column, is } = parts
  if (is === 'at') return `${column} = ?`
  if (is === 'below') return `${column} < ?`
  if (is === 'one of')
    return `${column} in (${Array<string>(parts.states ?? 0)
      .fill('?')
      .join(', ')})`
  return `${timely(parts)} and (${column} is null or ${column} < ${time}) and not (${rounds(parts, column)})`
}

function timely({ isLimited }: RowParts): string {
  return isLimited === true ? `${time} <= utc_timestamp(6) + interval ? microsecond` : '1 = 1'
}

function insertable(parts: RowParts): string {
  return parts.is === 'older' ? `${timely(parts)} and not (${roundsInsert(parts)})` : '1 = 1'
}

function verdict(parts: RowParts): string {
  const { column } = parts
  return `case when not (${timely(parts)}) then 'ahead' when ${rounds(parts, column)} then 'rounds'
  when ${column} is null or ${column} < ${time} then 'newer' else 'stale' end`
}

/** The maximum of no values is NULL, with the type of the column. */
function roundsInsert(parts: RowParts): string {
  return `(select ${rounds(parts, `max(${parts.column})`)} from ${parts.table} where false)`
}

/**
 * Reads the precision of a column from the length of its text: a DATETIME has 19 characters without decimals, otherwise
 * 20 plus the number of decimals. If the value is null, `coalesce` converts a DATE to the type of the column. A DATE
 * column has 10 characters.
 */
function rounds({ decimals = 0 }: RowParts, value: string): string {
  const length = decimals === 0 ? 19 : 20 + decimals
  return `char_length(cast(coalesce(${value}, cast('2000-01-01' as date)) as char)) < ${length}`
}
