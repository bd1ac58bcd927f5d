/* MySQL and MariaDB have settings of a session with which txbox cannot work; PostgreSQL has no such settings. */
import { InvalidOptionError } from '@txbox/core'
import type { Row } from '@txbox/sql/stores'
import { columns } from './columns.ts'

/**
 * Refuses settings of txbox's own connections, which come from the user's pool. The settings of a user's transaction are not
 * asked for, because that would cost a round trip: `docs/databases.md` names them.
 *
 * @param row the columns `SETTINGS` of `session-statements.ts`.
 * @throws {InvalidOptionError} that names the setting.
 */
export function refuseSettings(row: Row | undefined): void {
  const completion = columns.text(row, 'completion')
  if (completion !== 'NO_CHAIN') {
    throw new InvalidOptionError(
      `mysql: the connections of 'db' have completion_type = '${completion}', with which the server begins another transaction, or ` +
        "closes the connection, after each COMMIT. txbox's next statement would not be committed, or would fail. Leave " +
        "completion_type at 'NO_CHAIN' for this pool.",
    )
  }
  if (columns.text(row, 'client') === 'binary' || columns.text(row, 'connection') === 'binary') {
    throw new InvalidOptionError(
      "mysql: the connections of 'db' have the character set 'binary' (SET NAMES binary, or the driver's option 'charset'), in which " +
        'the server accepts no JSON and compares text as bytes. Give this pool another character set, such as utf8mb4.',
    )
  }
}
