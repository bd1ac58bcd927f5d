import type { DeadLetterFilter, DeadLetterStore } from '@txbox/core'
import { connectedPortsOf } from '@txbox/core/internal'
import { createDeadLetters, type DeadLetters } from '@txbox/relay'
import { connectDatabase, type DatabaseOptions } from './connect-database.ts'

const STATEMENT_TIMEOUT_MS = 60_000

interface Selection {
  readonly topic?: string
  readonly type?: string
  readonly key?: string
}

/** The options that all commands for dead letters have. */
export interface DeadLettersOptions extends DatabaseOptions, Selection {
  /** Selects parked messages that are not dead letters, instead of dead letters. */
  readonly parked?: boolean
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

export function selectionOf({ topic, type, key }: Selection): Selection {
  return {
    ...(topic !== undefined && { topic }),
    ...(type !== undefined && { type }),
    ...(key !== undefined && { key }),
  }
}

/** Connects while `work` runs. Refuses tables with another revision before anything is read or written. */
export async function usingDeadLetters(
  options: DatabaseOptions,
  work: (tools: Tools) => Promise<void>,
): Promise<void> {
  const connected = await connectDatabase(options, 'dead-letters')
  const { database } = connected
  try {
    const ports = connectedPortsOf('dead-letters', database)
    await ports.checkSchema()
    const store = ports.deadLetters({ statementTimeoutMs: STATEMENT_TIMEOUT_MS })
    await work({ letters: createDeadLetters({ database }), store })
  } finally {
    await connected.close()
  }
}
