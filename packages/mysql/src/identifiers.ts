/*
 * MySQL and MariaDB have prefixes of table names, counted in characters; PostgreSQL has schemas, whose names are counted
 * in bytes.
 */
import { InvalidOptionError } from '@txbox/core'
import { nameOf } from '@txbox/core/internal'

/** What the names of our tables begin with; the migration files carry this prefix. */
export const DEFAULT_PREFIX = 'txbox_'

/** MySQL takes names of 64 characters; the longest of ours after the prefix is 'collections'. */
const PREFIX_CHARACTERS = 53

/**
 * Names are stored in three bytes a character: an emoji would silently become a question mark. Question marks stand for
 * values in the statements.
 */
const NAME = /^[\u0020-\u003e\u0040-\u007e\u0080-\ud7ff\ue000-\uffff]+$/u

/** Names of our tables, quoted for SQL text. */
export interface Tables {
  /** As the user wrote it. */
  readonly prefix: string
  readonly inbox: string
  readonly outbox: string
  readonly leases: string
  readonly parked: string
  readonly redrives: string
  readonly collections: string
  readonly versions: string
  readonly waiting: string
  readonly migrations: string
}

/**
 * The names of the tables under a prefix. Capitals, spaces and hyphens are allowed in it.
 *
 * @throws {InvalidOptionError} when it is empty, longer than 53 characters, or holds what no name can.
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
  const quoted = (name: string): string => `\`${(prefix + name).replaceAll('`', '``')}\``
  return {
    prefix,
    inbox: quoted('inbox'),
    outbox: quoted('outbox'),
    leases: quoted('leases'),
    parked: quoted('parked'),
    redrives: quoted('redrives'),
    collections: quoted('collections'),
    versions: quoted('versions'),
    waiting: quoted('waiting'),
    migrations: quoted('migrations'),
  }
}
