import type { DeadLetterFilter, DeadLetters } from '@txbox/core'
import type { DeadLetterStore, InspectionStore, QueueFigures } from '@txbox/core/ports'
import { connectedPortsOf, deadLetterStoreOf, deadLettersOf } from '@txbox/core/internal'
import { connectDatabase, type DatabaseOptions } from './connect-database.ts'
import { visible } from './visible.ts'

const QUEUES = 100
const CONSUMERS = 100

interface Selection {
  readonly topic?: string
  readonly type?: string
  readonly key?: string
  /** A local consumer, instead of the outbox and all local consumers. */
  readonly consumer?: string
  readonly error?: string
}

export interface DeadLettersOptions extends DatabaseOptions, Selection {
  /** Selects parked messages that are not dead letters, instead of dead letters. */
  readonly parked?: boolean
  /** Selects messages of a stored queue, instead of those of the outbox. */
  readonly queue?: string
  readonly json?: boolean
}

export interface Tools {
  readonly letters: DeadLetters
  readonly store: DeadLetterStore
  readonly inspection: InspectionStore
}

export const everything: DeadLetterFilter = {
  ids: undefined,
  topic: undefined,
  type: undefined,
  key: undefined,
  after: undefined,
}

/** The messages of a queue have its name as their topic, so the queue alone counts as a selection. */
export function selectionOf({
  topic: ofTopic,
  type,
  key,
  consumer,
  error,
  queue,
}: Selection & Pick<DeadLettersOptions, 'queue'>): Selection {
  const topic = ofTopic ?? queue
  return {
    ...(topic !== undefined && { topic }),
    ...(type !== undefined && { type }),
    ...(key !== undefined && { key }),
    ...(consumer !== undefined && { consumer }),
    ...(error !== undefined && { error }),
  }
}

/**
 * Connects to the database while `work` runs. Refuses tables with another revision before anything is read or written.
 */
export async function usingDeadLetters(
  options: DatabaseOptions & Pick<DeadLettersOptions, 'queue' | 'consumer'>,
  work: (tools: Tools) => Promise<void>,
): Promise<void> {
  const connected = await connectDatabase(options, 'dead-letters')
  const { database } = connected
  try {
    const ports = connectedPortsOf('dead-letters', database)
    await ports.checkSchema()
    const { inspection } = connected
    const { queue, consumer } = options
    if (queue !== undefined) await assertQueue(inspection, queue)
    if (consumer !== undefined) await assertConsumer(inspection, consumer)
    const store = deadLetterStoreOf(ports, queue)
    await work({ letters: deadLettersOf(ports, { queue }), store, inspection })
  } finally {
    await connected.close()
  }
}

/** A misspelled queue must not look like a queue without dead letters. */
async function assertQueue(inspection: InspectionStore, queue: string): Promise<void> {
  if (await inspection.hasQueue(queue)) return
  const names = (await inspection.queues(QUEUES)).map(({ name }) => `'${visible(name)}'`)
  throw new Error(
    `There is no queue '${visible(queue)}': it has no messages, and nobody has received from it. ` +
      (names.length === 0 ? 'There are no queues.' : `The queues are ${names.join(', ')}.`),
  )
}

/** A misspelled consumer must not look like one without dead letters. */
async function assertConsumer(inspection: InspectionStore, consumer: string): Promise<void> {
  const names = (await inspection.localConsumers(CONSUMERS)).map(({ name }) => name)
  if (names.includes(consumer) || names.length === CONSUMERS) return
  const quoted = names.map((name) => `'${visible(name)}'`)
  throw new Error(
    `There is no local consumer '${visible(consumer)}': it has no messages and no subscriptions. ` +
      (names.length === 0
        ? 'There are no local consumers.'
        : `The local consumers are ${quoted.join(', ')}.`),
  )
}

/** The stored queues that have dead letters, with their numbers. */
export async function queuesWithDeadLetters(inspection: InspectionStore): Promise<readonly QueueFigures[]> {
  return (await inspection.queues(QUEUES)).filter(({ dead }) => dead.count > 0)
}
