/*
 * PostgreSQL has schemas, whose names are counted in bytes; MySQL and MariaDB have prefixes of table names, counted in
 * characters.
 */
import { InvalidOptionError } from '@txbox/core'
import { nameOf } from '@txbox/core/internal'

/** Where our tables live; the migration files carry this name. */
export const DEFAULT_SCHEMA = 'txbox'

/** What PostgreSQL keeps of a name (NAMEDATALEN − 1). A longer one would be cut without a word. */
const NAME_BYTES = 63

/**
 * A schema's name, quoted for SQL text. Capitals, quotes and hyphens are allowed.
 *
 * @throws {InvalidOptionError} when it is empty, longer than 63 bytes, or holds a NUL.
 */
export function quoteSchema(where: string, schema: unknown): string {
  if (
    typeof schema !== 'string' ||
    schema === '' ||
    schema.includes('\0') ||
    !schema.isWellFormed() ||
    Buffer.byteLength(schema) > NAME_BYTES
  ) {
    throw new InvalidOptionError(
      `${where}: the option 'schema' must be a name of 1 to ${NAME_BYTES} bytes, not ${nameOf(schema)}.`,
    )
  }
  return `"${schema.replaceAll('"', '""')}"`
}
