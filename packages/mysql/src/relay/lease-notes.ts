/* On MySQL and MariaDB, the number of changed rows may not show whether a lease is held; PostgreSQL counts the rows that were found. */
import type { Lease } from '@txbox/core/ports'
import { fence, type RelaySettling } from './relay-settling.ts'
import type { relayStatements } from './relay-statements.ts'
import { runBounded, type MysqlStatementRoot } from '../connection/run-alone.ts'
import type { Run } from '../connection/short-transaction.ts'

type Sql = Pick<ReturnType<typeof relayStatements>, 'note' | 'isHeld' | 'survived'>

/** The notes about crashes in the table of leases. `RelayStore` documents the methods. */
export class LeaseNotes {
  readonly #source: MysqlStatementRoot
  readonly #settling: RelaySettling
  readonly #sql: () => Promise<Sql>

  constructor(source: MysqlStatementRoot, settling: RelaySettling, sql: () => Promise<Sql>) {
    this.#source = source
    this.#settling = settling
    this.#sql = sql
  }

  async note(lease: Lease, inFlight: string | undefined): Promise<boolean> {
    const { note, isHeld } = await this.#sql()
    const doing = 'recording messages in flight'
    const run: Run = (text, given) =>
      this.#settling.attempt(() => runBounded(this.#source, doing, text, given))
    const { affected } = await run(note, [inFlight ?? null, ...fence(lease)])
    // Some drivers count only rows that have changed, not all rows that were found.
    return affected > 0 || (await run(isHeld, fence(lease))).rows.length > 0
  }

  async survived(lease: Lease): Promise<void> {
    const { survived } = await this.#sql()
    await this.#settling.attempt(() =>
      runBounded(this.#source, 'resetting the crash count', survived, fence(lease)),
    )
  }
}
