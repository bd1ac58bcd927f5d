import { portsKey, type AnyMessage } from '@txbox/core'
import type { ConnectedPorts } from '@txbox/core/ports'
import { causing, type Cause } from '@txbox/core/internal'
import { createInbox, type Inbox } from '@txbox/inbox'
import { wakeLocalConsumers } from '@txbox/consumer/internal'
import type { ConnectedDatabase, RunsMessages, Telemetry } from '@txbox/core'
import type { Ambient } from './ambient.ts'

type Fn = (...args: readonly never[]) => unknown
type Run = (messages: unknown, fn: Fn, options?: object) => Promise<unknown>
type Process = (tx: object, messages: unknown, fn: Fn) => Promise<unknown>

/**
 * The inbox of a consumer on the database of a box. Its handlers find their transaction, what they publish takes over the ids of
 * their message, and the local consumers of the process look at once when the transaction has committed.
 */
export function ambientInbox<Tx>(
  {
    ambient,
    database,
    ports,
    telemetry,
  }: {
    readonly ambient: Ambient
    readonly database: ConnectedDatabase<Tx>
    readonly ports: ConnectedPorts
    readonly telemetry: Telemetry | undefined
  },
  consumer: string,
): Inbox<Tx> & RunsMessages<Tx> {
  const inbox = createInbox({ database, consumer, telemetry }) as Inbox<Tx> & RunsMessages<Tx>

  const handling =
    (fn: Fn, stored: () => void): Fn =>
    (tx: object, messages: unknown, ...rest: readonly unknown[]) =>
      ambient.inside(tx, () =>
        causing(tx, { ...causeOf(messages), stored }, () =>
          (fn as (...all: unknown[]) => unknown)(tx, messages, ...rest),
        ),
      )
  const inOwn =
    (run: Run): Run =>
    async (messages, fn, options) => {
      let hasPublished = false
      const handler = typeof fn === 'function' ? handling(fn, () => (hasPublished = true)) : fn
      const outcome = await run(messages, handler, options)
      if (hasPublished) wakeLocalConsumers(ports)
      return outcome
    }
  /** The caller commits, so that nobody is woken. */
  const inGiven =
    (process: Process): Process =>
    (tx, messages, fn) =>
      process(tx, messages, typeof fn === 'function' ? handling(fn, () => undefined) : fn)

  return {
    consumer,
    process: inGiven(inbox.process.bind(inbox) as Process),
    processBatch: inGiven(inbox.processBatch.bind(inbox) as Process),
    hasProcessed: (tx: never, message: AnyMessage) => inbox.hasProcessed(tx, message),
    markProcessed: (tx: never, message: AnyMessage) => inbox.markProcessed(tx, message),
    forget: (tx: never, message: AnyMessage) => inbox.forget(tx, message),
    run: inOwn(inbox.run.bind(inbox) as Run),
    runBatch: inOwn(inbox.runBatch.bind(inbox) as Run),
    keyTextOf: (message: AnyMessage) => inbox.keyTextOf?.(message),
    lossOf: (error: unknown) => inbox.lossOf?.(error),
    [portsKey]: ports,
  } as unknown as Inbox<Tx> & RunsMessages<Tx>
}

/** In a batch there is no cause, and a correlation id only if all messages share it. */
function causeOf(messages: unknown): Cause {
  const all = (Array.isArray(messages) ? messages : [messages]) as readonly AnyMessage[]
  const shared = new Set(all.map(({ id, correlationId = id }) => correlationId))
  return {
    correlationId: shared.size === 1 ? [...shared][0] : undefined,
    causationId: all.length === 1 ? all[0]!.id : undefined,
  }
}
