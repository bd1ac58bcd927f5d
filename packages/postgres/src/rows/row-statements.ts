/*
 * PostgreSQL returns what a statement wrote, and has casts that depend on no type of a parameter; MySQL and MariaDB return
 * counts, and have literals instead of parameters.
 *
 * The tables belong to the user, and so do the operators of their columns: unlike txbox's own statements, these can name no
 * schema of an operator.
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
}
export interface ChangeParts extends RowParts {
  readonly set: readonly string[]
}
export interface InsertParts extends ChangeParts {
  readonly insert: readonly string[]
}

/** Hands out the numbers of the parameters, in the order in which the store passes the values. */
class Numbers {
  #next = 1

  next(): string {
    return `$${this.#next++}`
  }
}

/** The places of the values of a condition. */
interface Places {
  readonly at: string
  readonly states: readonly string[]
  readonly time: string
  readonly aheadMs: string | undefined
  readonly rounds: string
}

/**
 * Statements on tables of the user. Their values are, in this order: of a change the columns of `set` and the new value; of
 * the key; of the condition. An INSERT has the values of the key and of the new row first.
 */
export const rowStatements = {
  update(parts: ChangeParts): string {
    const n = new Numbers()
    const set = parts.set.map((name) => `${name} = ${n.next()}`)
    set.push(`${parts.column} = ${written(parts, n.next())}`)
    return `
update ${parts.table}
set ${set.join(', ')}
where ${hasKey(parts, n)} and ${holds(parts, parts.column, places(parts, n))}
returning ${parts.column}::text as found`
  },

  delete(parts: RowParts): string {
    const n = new Numbers()
    return `
delete from ${parts.table}
where ${hasKey(parts, n)} and ${holds(parts, parts.column, places(parts, n))}
returning 'true' as deleted`
  },

  insertOrUpdate(parts: InsertParts): string {
    const n = new Numbers()
    const values = [...parts.key, ...parts.insert].map(() => n.next())
    const to = written(parts, n.next())
    const set = parts.set.map((name) => `${name} = ${n.next()}`)
    set.push(`${parts.column} = excluded.${parts.column}`)
    const found = places(parts, n)
    const insertable = parts.is === 'older' ? `\nwhere ${timely(found)} and not ${found.rounds}` : ''
    return `
insert into ${parts.table} as txbox_row (${[...parts.key, ...parts.insert, parts.column].join(', ')})
select ${[...values, to].join(', ')}${insertable}
on conflict (${parts.key.join(', ')}) do update
set ${set.join(', ')}
where ${holds(parts, `txbox_row.${parts.column}`, found)}
returning 'true' as written`
  },

  /** Like UPDATE, FOR NO KEY UPDATE does not block inserts of rows that reference this row by a foreign key. */
  look(parts: RowParts): string {
    const n = new Numbers()
    const key = hasKey(parts, n)
    const found = parts.is === 'older' ? verdict(parts.column, places(parts, n)) : `${parts.column}::text`
    return `
select ${found} as found
from ${parts.table}
where ${key}
limit 2
for no key update`
  },

  refusal(parts: RowParts): string {
    const found = places(parts, new Numbers())
    return `
select case when not (${timely(found)}) then 'ahead' when ${found.rounds} then 'rounds' else 'newer' end as found`
  },

  /** The columns of a table, with the type under a domain. */
  columns: `
select attribute.attname::text as name, base.typname::text as type,
  (base.typnamespace = 'pg_catalog'::pg_catalog.regnamespace)::text as is_known,
  (case when type.typbasetype = 0 then attribute.atttypmod else type.typtypmod end)::text as modifier
from pg_catalog.pg_attribute as attribute
join pg_catalog.pg_type as type on type.oid = attribute.atttypid
join pg_catalog.pg_type as base on base.oid = coalesce(nullif(type.typbasetype, 0), type.oid)
where attribute.attrelid = pg_catalog.to_regclass($1) and attribute.attnum > 0 and not attribute.attisdropped
order by attribute.attnum`,

  /**
   * Reads the columns, and their number: a column that was added since the columns were asked for must not be missing.
   *
   * @param columns expressions, with their names.
   */
  read(
    { table, key }: Pick<RowParts, 'table' | 'key'>,
    columns: readonly string[],
    isLocked: boolean,
  ): string {
    const n = new Numbers()
    const has = hasKey({ key }, n)
    return `
select ${columns.join(', ')}, (
  select pg_catalog.count(*)::text
  from pg_catalog.pg_attribute
  where attrelid = pg_catalog.to_regclass(${n.next()}) and attnum > 0 and not attisdropped
) as columns
from ${table}
where ${has}
limit 2${isLocked ? '\nfor update' : ''}`
  },

  /** The text of a column, which depends on no setting of the session. */
  text: (column: string) => `${column}::text`,
  hex: (column: string) => `pg_catalog.encode(${column}, 'hex')`,
  /** The bits of a number, of which a text may show 15 digits. */
  double: (column: string) => `pg_catalog.encode(pg_catalog.float8send(${column}::double precision), 'hex')`,
  /** Milliseconds since 1970. Infinite times have no milliseconds. */
  milliseconds: (column: string) => `
  case when pg_catalog.isfinite(${column}) then pg_catalog.floor(extract(epoch from ${column}) * 1000::numeric)::bigint::text
  else ${column}::text end`,
  day: (column: string) => `
  case when pg_catalog.isfinite(${column}) then pg_catalog.to_char(${column}, 'YYYY-MM-DD') else ${column}::text end`,
} as const

function hasKey({ key }: Pick<RowParts, 'key'>, n: Numbers): string {
  return key.map((name) => `${name} = ${n.next()}`).join(' and ')
}

function written({ is }: RowParts, place: string): string {
  return is === 'older' ? `${place}::timestamptz` : place
}

function places({ is, states = 0, isLimited }: RowParts, n: Numbers): Places {
  const none = { at: '', states: [], time: '', aheadMs: undefined, rounds: '' }
  if (is === 'one of') return { ...none, states: Array.from({ length: states }, () => n.next()) }
  if (is !== 'older') return { ...none, at: n.next() }
  return {
    ...none,
    time: `${n.next()}::timestamptz`,
    rounds: rounds(n.next(), n.next(), n.next()),
    aheadMs: isLimited === true ? n.next() : undefined,
  }
}

function holds({ is }: RowParts, column: string, { at, states, ...found }: Places): string {
  if (is === 'at') return `${column} = ${at}`
  // The cast makes the statement fail for a column of text, which has no such operator: as texts, '10' is below '9'.
  if (is === 'below') return `${column} < ${at}::numeric`
  if (is === 'one of') return `${column} in (${states.join(', ')})`
  const { time } = found
  return `${timely({ at, states, ...found })}
  and (${column} is null or ${column} < ${time}) and not ${found.rounds}`
}

function timely({ time, aheadMs }: Places): string {
  // The server needs the type of each parameter, even if nothing depends on it.
  if (aheadMs === undefined) return `${time} is not null`
  return `${time} <= pg_catalog.clock_timestamp() + ${aheadMs}::double precision * interval '1 millisecond'`
}

function verdict(column: string, found: Places): string {
  return `case when not (${timely(found)}) then 'ahead' when ${found.rounds} then 'rounds'
  when ${column} is null or ${column} < ${found.time} then 'newer' else 'stale' end`
}

/** Whether the type of the column has fewer decimals than the time, or is no time. */
function rounds(table: string, column: string, mostDecimals: string): string {
  return `coalesce((
    select case
      when coalesce(nullif(type.typbasetype, 0), type.oid) in (
        'pg_catalog.timestamptz'::pg_catalog.regtype, 'pg_catalog.timestamp'::pg_catalog.regtype
      )
      then case when type.typbasetype = 0 then attribute.atttypmod else type.typtypmod end
        between 0 and ${mostDecimals}::integer
      else true
    end
    from pg_catalog.pg_attribute as attribute
    join pg_catalog.pg_type as type on type.oid = attribute.atttypid
    where attribute.attrelid = pg_catalog.to_regclass(${table}) and attribute.attname = ${column}
  ), false)`
}
