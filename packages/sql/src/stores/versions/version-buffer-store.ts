import type { Session } from '@txbox/core'
import type { DeadChange, VersionBufferStore, VersionChain, WaitingChange } from '@txbox/core/ports'
import type { Resolved } from '../../transactions/adapters.ts'
import { connectionIdentity } from '../../transactions/resolver/resolver.ts'
import type { Row, RowReader } from '../row-reader.ts'

export const BUFFERING = 'waiting for a predecessor in the version buffer'

/** The parts of one database that reading its version buffer needs. `V` is the type of the values of its statements. */
interface BufferedDatabase<V> {
  readonly read: RowReader
  rows(
    session: Session,
    statement: 'first' | 'last' | 'overdue' | 'overdueKeys' | 'dead',
    values: readonly (V | number)[],
  ): Promise<readonly Row[]>
  /** Converts the name of a consumer or a key to a value of a statement. */
  nameValue(name: string): V
  ageValue(ageMs: number): V | number
  deadValues(filter: {
    readonly consumer: V
    /** Absent for the dead letters of all keys. */
    readonly key: V | undefined
    readonly afterKey: V
    readonly afterFrom: bigint
    readonly limit: number
  }): readonly (V | number)[]
}

/**
 * The reading methods of a version buffer, which are the same on all databases. {@link VersionBufferStore} documents
 * them.
 */
export function versionBufferReads<V>(
  database: BufferedDatabase<V>,
): Pick<VersionBufferStore, 'transactionOf' | 'waiting' | 'overdue' | 'overdueKeys' | 'dead'> {
  const { read } = database
  const keyOf = ({ consumer, key }: VersionChain): V[] =>
    [consumer, key].map((name) => database.nameValue(name))
  const waitingChange = (row: Row): WaitingChange => ({
    from: read.bigint(row, 'from_version'),
    to: read.bigint(row, 'to_version'),
    kind: read.text(row, 'kind'),
    payload: read.text(row, 'payload'),
  })
  const deadChange = (row: Row): DeadChange => ({
    ...waitingChange(row),
    key: read.key(row, 'key'),
    reason: read.text(row, 'reason'),
    // All databases return milliseconds.
    receivedAt: new Date(read.number(row, 'received_at')),
    deadAt: new Date(read.number(row, 'dead_at')),
  })
  return {
    async transactionOf(session) {
      const { driver, connection, isOpen } = session as unknown as Resolved
      const monitor = await driver.monitor(connection)
      const snapshot = monitor?.snapshot()
      return {
        connection: monitor?.tracker === undefined ? connectionIdentity({ driver, connection }) : monitor,
        hasEnded: () => !isOpen() || snapshot?.replaced === true,
      }
    },
    async waiting(session, chain, { order, limit }) {
      return (await database.rows(session, order, [...keyOf(chain), limit])).map(waitingChange)
    },
    async overdue(session, chain, ageMs) {
      const values = [...keyOf(chain), database.ageValue(ageMs)]
      return (await database.rows(session, 'overdue', values)).map(waitingChange)
    },
    async overdueKeys(session, consumer, ageMs, limit) {
      const values = [database.nameValue(consumer), database.ageValue(ageMs), limit]
      return (await database.rows(session, 'overdueKeys', values)).map((row) => read.key(row, 'key'))
    },
    async dead(session, { consumer, key, after, limit }) {
      const values = database.deadValues({
        consumer: database.nameValue(consumer),
        key: key === undefined ? undefined : database.nameValue(key),
        afterKey: database.nameValue(after?.key ?? ''),
        afterFrom: after?.from ?? 0n,
        limit,
      })
      return (await database.rows(session, 'dead', values)).map(deadChange)
    },
  }
}
