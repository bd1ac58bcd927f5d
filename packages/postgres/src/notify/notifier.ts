/* Only PostgreSQL can notify. */
import type { Session } from '@txbox/core'
import type { Notify } from '@txbox/core/ports'
import { columns } from '../connection/columns.ts'
import { execute } from '../connection/session.ts'
import { NotifyBudget } from './notify-budget.ts'
import { UNSAFE, notifyStatements } from './notify-statements.ts'

const NOTIFYING = 'notifying of new messages'

export interface Notification {
  readonly channel: string
  readonly payload: string
}

/** One budget for the whole process: the lock that notifying transactions take is shared by all databases of a server. */
const budget = new NotifyBudget()

/** Why transactions do not notify, for those reasons that this process has reported. */
const reported = new Set<string>()

const REASONS: Readonly<Record<string, string>> = {
  [UNSAFE.prepared]:
    'max_prepared_transactions is above 0, and PREPARE TRANSACTION refuses a transaction that notifies',
  [UNSAFE.timeout]:
    'the transaction has a lock_timeout, which would count for the lock that notifying transactions take at COMMIT',
  [UNSAFE.full]: "the server's queue of notifications is half full: a session that listens has not read them",
  forbidden: 'the role may not execute pg_notify and pg_notification_queue_usage',
}

/** Notifies those who listen when a transaction commits. */
export class Notifier {
  /** Whether the server has prepared transactions: only a restart of the server can change this. */
  #hasPrepared = false

  /**
   * Must be called after the messages were stored: a later call that is not awaited must not overtake their INSERT. With `'auto'`,
   * only some transactions notify, and none that could fail because of that.
   */
  async notify(session: Session, notifications: readonly Notification[], how: Notify): Promise<void> {
    if (how === false || notifications.length === 0) return
    if (how === 'auto') return this.#notifyIfSafe(session, notifications)
    for (const { channel, payload } of notifications) {
      await execute(session, NOTIFYING, notifyStatements.notify, [channel, payload])
    }
  }

  async #notifyIfSafe(session: Session, notifications: readonly Notification[]): Promise<void> {
    if (this.#hasPrepared) return
    if (!budget.take(notifications.map(({ channel, payload }) => `${channel} ${payload}`))) return
    // Each time: the transactions of one connection may have different roles, and a privilege may be revoked.
    if (!(await this.#isAllowed(session))) return report('forbidden')
    const { rows } = await execute(session, NOTIFYING, notifyStatements.notifyIfSafe, [
      notifications.map(({ channel }) => channel),
      notifications.map(({ payload }) => payload),
    ])
    const answer = columns.text(rows[0], 'answer')
    if (answer in REASONS) report(answer)
    if (answer === UNSAFE.prepared) this.#hasPrepared = true
  }

  /** Whether the role of the transaction may notify. */
  async #isAllowed(session: Session): Promise<boolean> {
    const { rows } = await execute(session, NOTIFYING, notifyStatements.mayNotify, [])
    return columns.flag(rows[0], 'allowed')
  }
}

function report(reason: string): void {
  if (reported.has(reason)) return
  reported.add(reason)
  process.emitWarning(
    `Transactions do not notify of new messages, which are found by polling: ${REASONS[reason]}. Set the option 'notify' to false ` +
      'to leave it at that, or to true to notify all the same.',
    { type: 'TxboxWarning', code: 'TXBOX_NOT_NOTIFYING' },
  )
}
