import { sql, type Kysely, type Transaction } from 'kysely'
import {
  applyIfNewer,
  applyVersion,
  createVersionBuffer,
  stateMachine,
  transition,
  type VersionedMessage,
} from 'txbox/versioning'
import type { Opened, Tables } from './database.ts'

type Status = Tables['example_orders']['status']

/** One change of an order, as the message describes it. */
export interface Change {
  readonly order: string
  readonly from: number
  readonly to: number
  readonly at: string
  readonly status: Status
}

/** One way to apply changes that come in any order, and more than once. */
export type Way = (tx: Transaction<Tables>, change: Change) => Promise<unknown>

const machine = stateMachine({
  placed: ['paid'],
  paid: ['packed'],
  packed: ['shipped'],
  shipped: ['delivered'],
  delivered: [],
})

export function waysOn({ database }: Opened): Readonly<Record<string, Way>> {
  const buffer = createVersionBuffer({
    database,
    consumer: 'example-orders',
    firstVersion: 1,
    apply: (tx, { payload }: VersionedMessage<Change>) =>
      applyVersion(tx, 'example_orders', {
        where: { id: payload.order },
        from: payload.from,
        to: payload.to,
        set: changed(payload),
      }),
  })
  return {
    /** The last change to arrive wins. */
    nothing: (tx, change) =>
      tx.updateTable('example_orders').set(changed(change)).where('id', '=', change.order).execute(),

    /** A move that is too early throws, and its message is delivered again. */
    'state machine': (tx, change) =>
      transition(tx, 'example_orders', {
        where: { id: change.order },
        column: 'status',
        to: change.status,
        machine,
        set: { history: appended(change) },
      }),

    /** The final state is right, but some changes are skipped. */
    'last writer': (tx, change) =>
      applyIfNewer(tx, 'example_orders', {
        where: { id: change.order },
        column: 'changed_at',
        at: change.at,
        set: changed(change),
      }),

    /** Every change once, in order; a change that comes too early waits in the database. */
    strict: (tx, change) =>
      buffer.process(tx, { key: change.order, from: change.from, to: change.to, payload: change }),
  }
}

function changed(change: Change) {
  return { status: change.status, history: appended(change) }
}

function appended({ to }: Change) {
  return sql<string>`concat(history, ' ', cast(${to} as char(1)))`
}

/** The changes of an order, in order. */
export function changesOf(order: string): readonly Change[] {
  return machine.states.slice(1).map((status, n) => ({
    order,
    from: n + 1,
    to: n + 2,
    // A few microseconds apart: a Date would lose the difference.
    at: `2026-01-01T12:00:00.00000${n + 1}Z`,
    status,
  }))
}

/** The results of the orders: whether they reached their last state, and whether each change was applied once and in order. */
export async function judge(
  db: Kysely<Tables>,
  orders: readonly string[],
): Promise<{ delivered: number; inOrder: number }> {
  const rows = await db
    .selectFrom('example_orders')
    .select(['status', 'history'])
    .where('id', 'in', orders)
    .execute()
  return {
    delivered: rows.filter(({ status }) => status === 'delivered').length,
    inOrder: rows.filter(({ history }) => history.trim() === '2 3 4 5').length,
  }
}
