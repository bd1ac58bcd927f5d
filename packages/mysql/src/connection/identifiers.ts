/*
 * MySQL and MariaDB have prefixes of table names, counted in characters; PostgreSQL has schemas, whose names are
 * counted in bytes.
 */
import { InvalidOptionError } from '@txbox/core'
import { nameOf } from '@txbox/core/internal'

/** The migration files use this prefix. */
export const DEFAULT_PREFIX = 'txbox_'

/** MySQL allows names of 64 characters; txbox's longest table name after the prefix is 'subscriptions'. */
const PREFIX_CHARACTERS = 51

/**
 * The server stores names with at most three bytes per character: an emoji would silently become a question mark.
 * Question marks are not allowed either, because they are placeholders for values in statements.
 */
const NAME = /^[\u0020-\u003e\u0040-\u007e\u0080-\ud7ff\ue000-\uffff]+$/u

/** The names of txbox's tables, quoted for SQL text. */
export interface Tables {
  /** The prefix as the user wrote it. */
  readonly prefix: string
  readonly inbox: string
  readonly outbox: string
  readonly keyLocks: string
  readonly leases: string
  readonly dedupLeases: string
  readonly parked: string
  readonly queue: string
  readonly localOutbox: string
  readonly localParked: string
  readonly subscriptions: string
  readonly removals: string
  readonly redrives: string
  readonly collections: string
  readonly versions: string
  readonly waiting: string
  readonly migrations: string
}

/**
 * Returns the names of the tables with a prefix. Capitals, spaces and hyphens are allowed in the prefix.
 *
 * @throws {InvalidOptionError} when the prefix is empty, longer than 51 characters, or contains a character that no
 *   name can have.
 */
export function tablesOf(where: string, prefix: unknown): Tables {
  if (
    typeof prefix !== 'string' ||
    prefix.length < 1 ||
    prefix.length > PREFIX_CHARACTERS ||
    !NAME.test(prefix)
  ) {
    throw new InvalidOptionError(
      `${where}: the option 'prefix' must be text of 1 to ${PREFIX_CHARACTERS} characters that names of tables can have, ` +
        `not ${nameOf(prefix)}.`,
    )
  }
  if (/local_$/i.test(prefix)) {
    throw new InvalidOptionError(
      `${where}: the option 'prefix' must not end with 'local_', because '${prefix}outbox' is the name of a table that ` +
        `the prefix '${prefix.slice(0, -'local_'.length)}' has for local consumers.`,
    )
  }
  if (/dedup_$/i.test(prefix)) {
    throw new InvalidOptionError(
      `${where}: the option 'prefix' must not end with 'dedup_', because '${prefix}leases' is the name of a table that ` +
        `the prefix '${prefix.slice(0, -'dedup_'.length)}' has for dedup stores.`,
    )
  }
  const quoted = (name: string): string => quotedName(prefix + name)
  return {
    prefix,
    inbox: quoted('inbox'),
    outbox: quoted('outbox'),
    keyLocks: quoted('key_locks'),
    leases: quoted('leases'),
    dedupLeases: quoted('dedup_leases'),
    parked: quoted('parked'),
    queue: quoted('queue'),
    localOutbox: quoted('local_outbox'),
    localParked: quoted('local_parked'),
    subscriptions: quoted('subscriptions'),
    removals: quoted('removals'),
    redrives: quoted('redrives'),
    collections: quoted('collections'),
    versions: quoted('versions'),
    waiting: quoted('waiting'),
    migrations: quoted('migrations'),
  }
}

export function quotedName(name: string): string {
  return `\`${name.replaceAll('`', '``')}\``
}

/** A row, as error messages describe it. */
interface Described {
  readonly doing: string
}

/** MySQL's limit for the names of tables, columns and databases. */
const NAME_CHARACTERS = 64

/**
 * Returns the database, if it is named, and the name of a table of the user.
 *
 * @throws {InvalidOptionError} when the server would have no such name.
 */
export function tableNames(row: Described, table: string): readonly [database: string | null, name: string] {
  const names = table.split('.')
  if (names.length > 2) {
    throw new InvalidOptionError(
      `${row.doing}: expected the name of a table, or database.table, not ${names.length} names. Nothing was written.`,
    )
  }
  for (const name of names) assertName(row, name)
  return names.length === 1 ? [null, names[0]!] : [names[0]!, names[1]!]
}

export function quotedTable(row: Described, table: string): string {
  return tableNames(row, table)
    .filter((name) => name !== null)
    .map(quotedName)
    .join('.')
}

/**
 * Quotes the name of a column of the user.
 *
 * @throws {InvalidOptionError} when the name has no 1 to 64 characters, or a question mark or another character that no
 *   statement of txbox can have.
 */
export function quotedColumn(row: Described, name: string): string {
  assertName(row, name)
  return quotedName(name)
}

function assertName(row: Described, name: string): void {
  if (name.length >= 1 && name.length <= NAME_CHARACTERS && NAME.test(name)) return
  throw new InvalidOptionError(
    `${row.doing}: the names of tables and columns have 1 to ${NAME_CHARACTERS} characters, and no question marks, NUL characters or ` +
      `emoji; not ${nameOf(name)}. Nothing was written.`,
  )
}
