import { migrationSql as mysqlSql } from '@txbox/mysql'
import { migrationSql as postgresSql } from '@txbox/postgres'
import type { Row, Target } from './target.ts'

export interface MigrationFile {
  readonly name: string
  readonly sql: string
}

/** Every migration, oldest first, for another schema or prefix than the default one. */
export function migrationsOf(target: Target, where: string): readonly MigrationFile[] {
  return target.engine === 'postgres' ? postgresSql(where) : mysqlSql(where)
}

export function namesOf(target: Target): readonly string[] {
  return migrationsOf(target, 'any').map(({ name }) => name)
}

/** A file's statements, one by one. */
export function statementsOf(sql: string): readonly string[] {
  return sql
    .replaceAll(/^\s*--.*$/gm, '')
    .split(/;\s*$/m)
    .map((statement) => statement.trim())
    .filter((statement) => statement !== '')
}

/** The quoted name of a table of txbox, in this schema or with this prefix. */
export function tableIn(target: Target, where: string, name: string): string {
  return target.engine === 'postgres'
    ? `"${where.replaceAll('"', '""')}".${name}`
    : `\`${(where + name).replaceAll('`', '``')}\``
}

/** Describes the tables: columns with their types, defaults and collations, and indexes; without the schema's name. */
export async function shapeOf(target: Target, where: string): Promise<readonly string[]> {
  const rows =
    target.engine === 'postgres'
      ? await target.sql(
          `select table_name || ' ' || column_name || ' ' || data_type || ' ' || is_nullable || ' ' ||
             coalesce(collation_name, '') || ' ' || coalesce(column_default, '') as line
           from information_schema.columns where table_schema = ?
           union all select indexname || ' ' || indexdef from pg_indexes where schemaname = ?`,
          [where, where],
        )
      : await target.sql(
          `select concat_ws(' ', table_name, column_name, column_type, is_nullable, collation_name, column_default, extra) as line
           from information_schema.columns where table_schema = database() and left(table_name, length(?)) = ?
           union all select concat_ws(' ', table_name, index_name, seq_in_index, column_name, non_unique)
           from information_schema.statistics where table_schema = database() and left(table_name, length(?)) = ?`,
          [where, where, where, where],
        )
  return rows
    .map((row) =>
      String(row['line'])
        .replaceAll(`"${where.replaceAll('"', '""')}"`, 'WHERE')
        .replaceAll(where, 'WHERE'),
    )
    .toSorted()
}

/** A row for each table of a migration, so that the next migration runs on filled tables. */
const ROWS: Readonly<Record<number, readonly (readonly [table: string, columns: string, values: string])[]>> =
  {
    1: [['inbox', 'consumer, KEY, correlation_id, processed_at, expires_at', "'c', 'k', 'r', NOW, NOW"]],
    2: [
      [
        'outbox',
        'shard, id, topic, KEY, content_type, headers, payload, created_at',
        "3, 'm', 't', 'k', 'text/plain', '{}', 'p', NOW",
      ],
      ['leases', 'name, owner, term, expires_at', "'outbox/03', 'o', 7, NOW"],
    ],
    3: [
      [
        'parked',
        'shard, id, topic, KEY, order_key, content_type, headers, payload, created_at, due_at',
        "3, 'm', 't', 'k', 'k', 'text/plain', '{}', 'p', NOW, NOW",
      ],
      [
        'redrives',
        'redriven_at, dead_at, place, attempts, id, topic, redriven_by',
        "NOW, NOW, 1, 2, 'm', 't', 'me'",
      ],
    ],
    4: [
      ['versions', 'version, waiting, consumer, KEY', "1, 1, 'c', 'k'"],
      [
        'waiting',
        'from_version, to_version, received_at, consumer, KEY, kind, payload',
        "2, 3, NOW, 'c', 'k', 'number', '{}'",
      ],
    ],
    5: [],
    6: [],
    7: [],
    8: [],
    9: [],
    10: [
      [
        'queue',
        'shard, id, topic, KEY, order_key, content_type, headers, payload, created_at, due_at',
        "3, 'm', 'q', 'k', 'k', 'text/plain', '{}', 'p', NOW, NOW",
      ],
    ],
    11: [],
    12: [
      [
        'local_outbox',
        'shard, consumer, id, KEY, content_type, headers, payload, created_at',
        "3, 'c', 'm', 'k', 'text/plain', '{}', 'p', NOW",
      ],
      [
        'local_parked',
        'shard, consumer, id, KEY, order_key, content_type, headers, payload, created_at, due_at',
        "3, 'c', 'm', 'k', 'k', 'text/plain', '{}', 'p', NOW, NOW",
      ],
      ['subscriptions', 'type, consumer, registered_at', "'t', 'c', NOW"],
      ['removals', 'removed_at, discarded, consumer, type, removed_by', "NOW, 3, 'c', 't', 'me'"],
    ],
    13: [['dedup_leases', 'consumer, KEY, token, expires_at', "'c', 'k', TOKEN, NOW"]],
  }

/** Puts a row into each table of this migration. @returns the tables */
export async function fillTables(target: Target, where: string, number: number): Promise<readonly string[]> {
  const rows = ROWS[number]
  if (rows === undefined)
    throw new Error(`Say in ${import.meta.filename} what rows migration ${number} makes room for.`)
  const postgres = target.engine === 'postgres'
  for (const [table, columns, values] of rows) {
    const name = tableIn(target, where, table)
    const list = columns.replace('KEY', postgres ? 'key' : '`key`')
    const token = postgres ? 'pg_catalog.gen_random_uuid()' : "x'00112233445566778899aabbccddeeff'"
    const now = postgres ? 'clock_timestamp()' : 'utc_timestamp(6)'
    await target.sql(
      `insert into ${name} (${list}) values (${values.replaceAll('NOW', now).replace('TOKEN', token)})`,
    )
  }
  return rows.map(([table]) => table)
}

export async function contentOf(target: Target, where: string, table: string): Promise<readonly Row[]> {
  return target.sql(`select * from ${tableIn(target, where, table)}`)
}

/** Drops the tables of a schema or prefix, so that a description of others does not have to pass them over. */
export async function dropTables(target: Target, where: string): Promise<void> {
  if (target.engine === 'postgres') {
    await target.sql(`drop schema "${where.replaceAll('"', '""')}" cascade`)
    return
  }
  const rows = await target.sql(
    `select table_name as name from information_schema.tables
     where table_schema = database() and left(table_name, length(?)) = ?`,
    [where, where],
  )
  const names = rows.map(({ name }) => `\`${String(name).replaceAll('`', '``')}\``)
  await target.sql(`drop table ${names.join(', ')}`)
}
