import type { DeadLetterFilter, DeadLetters } from '@txbox/core'
import type { DeadLetterStore, InspectionStore, QueueFigures } from '@txbox/core/ports'
import { connectedPortsOf, deadLettersOf } from '@txbox/core/internal'
import { connectDatabase, type DatabaseOptions } from './connect-database.ts'
import { visible } from './visible.ts'

const STATEMENT_TIMEOUT_MS = 60_000
const QUEUES = 100

interface Selection {
  readonly topic?: string
  readonly type?: string
  readonly key?: string
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
  error,
  queue,
}: Selection & Pick<DeadLettersOptions, 'queue'>): Selection {
  const topic = ofTopic ?? queue
  return {
    ...(topic !== undefined && { topic }),
    ...(type !== undefined && { type }),
    ...(key !== undefined && { key }),
    ...(error !== undefined && { error }),
  }
}

/**
 * Connects to the database while `work` runs. Refuses tables with another revision before anything is read or written.
 */
export async function usingDeadLetters(
  options: DatabaseOptions & Pick<DeadLettersOptions, 'queue'>,
  work: (tools: Tools) => Promise<void>,
): Promise<void> {
  const connected = await connectDatabase(options, 'dead-letters')
  const { database } = connected
  try {
    const ports = connectedPortsOf('dead-letters', database)
    await ports.checkSchema()
    const { inspection } = connected
    if (options.queue !== undefined) await assertQueue(inspection, options.queue)
    const of = options.queue === undefined ? {} : { queue: options.queue }
    const store = ports.deadLetters({ statementTimeoutMs: STATEMENT_TIMEOUT_MS, ...of })
    await work({ letters: deadLettersOf(ports, of), store, inspection })
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

/** The stored queues that have dead letters, with their numbers. */
export async function queuesWithDeadLetters(inspection: InspectionStore): Promise<readonly QueueFigures[]> {
  return (await inspection.queues(QUEUES)).filter(({ dead }) => dead.count > 0)
}
