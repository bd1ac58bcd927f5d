/*
 * PostgreSQL has schemas, whose names are counted in bytes; MySQL and MariaDB have prefixes of table names, counted in
 * characters.
 */
import { crc32 } from 'node:zlib'
import { InvalidOptionError } from '@txbox/core'
import { nameOf } from '@txbox/core/internal'

/** The default schema of txbox's tables, which the migration files use. */
export const DEFAULT_SCHEMA = 'txbox'

/** The maximum length of a name (NAMEDATALEN − 1). PostgreSQL silently truncates a longer one. */
const NAME_BYTES = 63

/**
 * Capitals, quotes and hyphens are allowed.
 *
 * @throws {InvalidOptionError} when the name is empty, longer than 63 bytes, or contains a NUL.
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

/** A channel name has a lower length limit than a schema name, so it is derived from the schema. `schema` is quoted. */
export function channelOf(schema: string): string {
  return `txbox_outbox_${crc32(schema).toString(16)}`
}

/** Returns the name of the channel of all stored queues; the payload of a notification is the queue's name. */
export function queueChannelOf(schema: string): string {
  return `txbox_queue_${crc32(schema).toString(16)}`
}
