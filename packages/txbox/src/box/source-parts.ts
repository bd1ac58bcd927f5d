import { createConsumer, type Consumer } from '@txbox/consumer'
import { markedHandlerOf } from '@txbox/consumer/internal'
import {
  InvalidOptionError,
  LIMITS,
  PermanentError,
  portsKey,
  type AnyMessage,
  type ConnectedDatabase,
  type RunsMessages,
  type Telemetry,
} from '@txbox/core'
import type { ConnectedPorts } from '@txbox/core/ports'
import { OptionChecker, idempotencyKey, inboxKey, nameOf, oneLine, unlessAborted } from '@txbox/core/internal'
import { messageId } from '@txbox/inbox'
import type { Ambient } from './ambient.ts'
import { ambientInbox } from './ambient-inbox.ts'
import { creating } from './box-settings.ts'

type Handler = (...args: readonly unknown[]) => unknown
type Handlers = ReadonlyMap<string, { readonly call: Handler; readonly isAtLeastOnce: boolean }>

interface Box {
  readonly ambient: Ambient
  readonly database: ConnectedDatabase<unknown>
  readonly ports: ConnectedPorts
  readonly logger: unknown
  readonly telemetry: Telemetry | undefined
}

const OPTIONS = [
  ...['source', 'handlers', 'concurrency', 'prefetch', 'retry', 'deadLetters', 'deadLetterTopic'],
  ...['handleTimeoutMs', 'unhandled'],
]

/** Creates the consumer of a source, which calls the handler of the type of each message. */
export function sourcePart(
  name: string,
  entry: object,
  { ambient, database, ports, logger, telemetry }: Box,
): Consumer {
  const where = `source '${oneLine(name)}'`
  const check = new OptionChecker(`createTxbox, ${where}`, entry).known(...OPTIONS)
  const { handlers: given, unhandled: _, ...options } = entry as Readonly<Record<string, unknown>>
  const handlers = handlersOption(check, given)
  const ignores = check.oneOf('unhandled', ['dead-letter', 'ignore'], 'dead-letter') === 'ignore'
  const inbox = creating(where, () => ambientInbox({ ambient, database, ports, telemetry }, name))
  return creating(where, () =>
    createConsumer({
      ...options,
      logger,
      telemetry,
      inbox: dispatching(inbox, { ambient, handlers, ignores, ports }),
      handler: (tx: unknown, message: AnyMessage, context: unknown) => {
        const { call, isAtLeastOnce } = handlers.get(message.type!)!
        return isAtLeastOnce ? call(message, context) : call(tx, message, context)
      },
    } as never),
  )
}

function handlersOption(check: OptionChecker, given: unknown): Handlers {
  const entries =
    typeof given === 'object' && given !== null && !Array.isArray(given) ? Object.entries(given) : []
  if (entries.length === 0) {
    throw check.wrong(
      'handlers',
      "an object with a handler for each type, such as { 'order.placed': async (tx, message) => {} }",
    )
  }
  return new Map(
    (entries as [string, unknown][]).map(([type, handler]) => {
      if (type.length < 1 || type.length > LIMITS.typeCharacters) {
        throw new InvalidOptionError(
          `${check.where}: each type in the option 'handlers' must be text of 1 to ${LIMITS.typeCharacters} characters.`,
        )
      }
      const marked = markedHandlerOf(handler) as Handler | undefined
      if (marked === undefined && typeof handler !== 'function') {
        throw new InvalidOptionError(
          `${check.where}: the handler of the type '${oneLine(type)}' must be a function, or the result of atLeastOnce(), not ` +
            `${nameOf(handler)}.`,
        )
      }
      return [type, { call: marked ?? (handler as Handler), isAtLeastOnce: marked !== undefined }]
    }),
  )
}

interface Dispatching {
  readonly ambient: Ambient
  readonly handlers: Handlers
  /** Whether a message without a handler is accepted. Otherwise it is a dead letter. */
  readonly ignores: boolean
  readonly ports: ConnectedPorts
}

/** The inbox of a source: it claims the messages whose handlers have a transaction, and only those. */
function dispatching(
  inbox: RunsMessages<unknown>,
  { ambient, handlers, ignores, ports }: Dispatching,
): RunsMessages<unknown> {
  const { consumer } = inbox
  const hasTransactions = [...handlers.values()].some(({ isAtLeastOnce }) => !isAtLeastOnce)
  const dispatched: RunsMessages<unknown> = {
    consumer,
    keyTextOf: (message) => inbox.keyTextOf!(message),
    lossOf: (error) => inbox.lossOf!(error),
    async run(message, fn, options = {}) {
      const { type } = message
      const handler = type === undefined ? undefined : handlers.get(type)
      const key = inboxKey(messageId()(message), consumer)
      if (handler === undefined) {
        if (!ignores) throw unhandled(consumer, type)
        return { status: 'processed', key: key.text, result: undefined as never }
      }
      if (!handler.isAtLeastOnce) return inbox.run(message, fn, options)
      const { signal = new AbortController().signal } = options
      const context = {
        consumer,
        key: key.text,
        idempotencyKey: idempotencyKey(consumer, key),
        attempt: 1,
        signal,
      }
      const running = ambient.outside(async () => fn(undefined, message, context))
      return { status: 'processed', key: key.text, result: await unlessAborted(running, signal) }
    },
    runBatch: (messages, fn, options) => inbox.runBatch(messages, fn, options),
  }
  // A handler without a transaction needs no connection.
  return hasTransactions ? Object.assign(dispatched, { [portsKey]: ports }) : dispatched
}

function unhandled(consumer: string, type: string | undefined): PermanentError {
  const what = type === undefined ? 'a message without a type' : `the type '${oneLine(type)}'`
  return new PermanentError(
    `The source '${consumer}' has no handler for ${what}. Add a handler and redrive the message, or set unhandled: 'ignore'.`,
  )
}
