/*
 * PostgreSQL has schemas, whose names are counted in bytes; MySQL and MariaDB have prefixes of table names, counted in
 * characters.
 */
import { crc32 } from 'node:zlib'
import { InvalidOptionError } from '@txbox/core'
import { nameOf } from '@txbox/core/internal'

/** The default schema of txbox's tables, which the migration files use. */
export const DEFAULT_SCHEMA = 'txbox'

/** A row, as error messages describe it. */
interface Described {
  readonly doing: string
}

/** The maximum length of a name (NAMEDATALEN − 1). PostgreSQL silently truncates a longer one. */
const NAME_BYTES = 63

/**
 * Capitals, quotes and hyphens are allowed.
 *
 * @throws {InvalidOptionError} when the name is empty, longer than 63 bytes, or contains a NUL.
 */
export function quoteSchema(where: string, schema: unknown): string {
  if (!isName(schema)) {
    throw new InvalidOptionError(
      `${where}: the option 'schema' must be a name of 1 to ${NAME_BYTES} bytes, not ${nameOf(schema)}.`,
    )
  }
  return quoted(schema)
}

/**
 * Quotes the name of a table of the user, or of its schema and the table, with a dot in between.
 *
 * @throws {InvalidOptionError} when the server would have no such name.
 */
export function quotedTable(row: Described, table: string): string {
  const names = table.split('.')
  if (names.length > 2) {
    throw new InvalidOptionError(
      `${row.doing}: expected the name of a table, or schema.table, not ${names.length} names. Nothing was written.`,
    )
  }
  return names.map((name) => quotedName(row, name)).join('.')
}

/**
 * Quotes the name of a column of the user.
 *
 * @throws {InvalidOptionError} when the name is empty, longer than 63 bytes, or contains a NUL: the server would cut it.
 */
export function quotedName(row: Described, name: string): string {
  if (isName(name)) return quoted(name)
  throw new InvalidOptionError(
    `${row.doing}: the names of tables and columns have 1 to ${NAME_BYTES} bytes, and no NUL characters; not ${nameOf(name)}. Nothing ` +
      'was written.',
  )
}

function isName(name: unknown): name is string {
  return (
    typeof name === 'string' &&
    name !== '' &&
    !name.includes('\0') &&
    name.isWellFormed() &&
    Buffer.byteLength(name) <= NAME_BYTES
  )
}

function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}

/** A channel name has a lower length limit than a schema name, so it is derived from the schema. `schema` is quoted. */
export function channelOf(schema: string): string {
  return `txbox_outbox_${crc32(schema).toString(16)}`
}

/** Returns the name of the channel of all local consumers. */
export function localChannelOf(schema: string): string {
  return `txbox_local_${crc32(schema).toString(16)}`
}

/** Returns the name of the channel of all stored queues; the payload of a notification is the queue's name. */
export function queueChannelOf(schema: string): string {
  return `txbox_queue_${crc32(schema).toString(16)}`
}
