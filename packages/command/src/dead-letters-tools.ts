import type { DeadLetterFilter, DeadLetters } from '@txbox/core'
import type { DeadLetterStore } from '@txbox/core/ports'
import { connectedPortsOf, deadLettersOf } from '@txbox/core/internal'
import { connectDatabase, type DatabaseOptions } from './connect-database.ts'

const STATEMENT_TIMEOUT_MS = 60_000

interface Selection {
  readonly topic?: string
  readonly type?: string
  readonly key?: string
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
  queue,
}: Selection & Pick<DeadLettersOptions, 'queue'>): Selection {
  const topic = ofTopic ?? queue
  return {
    ...(topic !== undefined && { topic }),
    ...(type !== undefined && { type }),
    ...(key !== undefined && { key }),
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
    const of = options.queue === undefined ? {} : { queue: options.queue }
    const store = ports.deadLetters({ statementTimeoutMs: STATEMENT_TIMEOUT_MS, ...of })
    await work({ letters: deadLettersOf(ports, of), store })
  } finally {
    await connected.close()
  }
}
