import { setTimeout as pause } from 'node:timers/promises'
import type { ConnectedDatabase } from '@txbox/core'
import { mysql } from '@txbox/mysql'
import { postgres } from '@txbox/postgres'
import { createQueue } from '@txbox/queue'
import { createDeadLetters } from '@txbox/relay'
import mysql2 from 'mysql2/promise'
import { Pool } from 'pg'
import type { Evidence } from '../check/evidence.ts'
import { readDeadLetters, readQueueDeadLetters } from '../check/gather-evidence.ts'
import { readCommitted, readEffects } from '../check/history.ts'
import {
  readLocal,
  readLocalDeadLetters,
  readLocalEffects,
  type LocalDeadLetter,
} from '../check/local-history.ts'
import { readQueueEffects, readQueued } from '../check/queue-history.ts'
import { withDirectConnection } from '../database/direct-connection.ts'
import type { Engine } from '../database/engine.ts'
import type { Sql } from '../database/sql.ts'
import { LOCAL_CONSUMERS, QUEUE } from '../workers/worker-protocol.ts'
import { machineStretch } from './machine-load.ts'
import type { RunParts } from './run-parts.ts'

/** The time in which the workers must finish the remaining work when the faults are over. */
const DRAIN_MS = 60_000
const DRAIN_AFTER_VIOLATION_MS = 5000

type DeadLetters = Pick<Evidence, 'deadLetters' | 'queueDeadLetters' | 'localDeadLetters'>

/**
 * How long the workers may take to finish. A message that waits for a lost predecessor would wait forever. A run that found only other
 * violations waits for the full time, since a message that had no time to be published is not lost.
 */
export function drainMs(isFound: boolean): number {
  return (isFound ? DRAIN_AFTER_VIOLATION_MS : DRAIN_MS) * machineStretch()
}

/**
 * Waits until every committed message has been published and has its effect, or until the time limit. Dead letters are redriven.
 *
 * @returns the dead letters, as they were before the redrives.
 */
export async function drain(parts: RunParts, url: string, isFound: boolean): Promise<DeadLetters> {
  const { recorder, options } = parts
  const engine = options.database
  const until = performance.now() + drainMs(isFound)
  const deadLetters = new Map<string, Evidence['deadLetters'][number]>()
  const queueDeadLetters = new Map<string, Evidence['deadLetters'][number]>()
  const localDeadLetters = new Map<string, LocalDeadLetter>()
  await recorder.letGo()
  while (performance.now() < until) {
    const isDone = await withDirectConnection(url, async (sql) => {
      for (const letter of await readDeadLetters(engine, sql)) deadLetters.set(letter.id, letter)
      for (const letter of await readQueueDeadLetters(engine, sql)) queueDeadLetters.set(letter.id, letter)
      for (const letter of await readLocalDeadLetters(engine, sql)) {
        localDeadLetters.set(`${letter.consumer} ${letter.id}`, letter)
      }
      return (await isHandled(sql)) && (await isPublished(parts, sql))
    }).catch(() => false)
    if (isDone) break
    // A message that was redriven before is no longer a dead letter, and is skipped.
    await redrive(engine, url, {
      ids: [...deadLetters.keys()].filter((id) => !recorder.first.has(id)),
      queueIds: [...queueDeadLetters.keys()],
      local: [...localDeadLetters.values()],
    })
    await pause(500)
  }
  return {
    deadLetters: [...deadLetters.values()],
    queueDeadLetters: [...queueDeadLetters.values()],
    localDeadLetters: [...localDeadLetters.values()],
  }
}

/** Whether the messages of the queue and of the local consumers have their effects. */
async function isHandled(sql: Sql): Promise<boolean> {
  const queued = new Set((await readQueueEffects(sql)).map(({ id }) => id))
  if (!(await readQueued(sql)).every(({ id }) => queued.has(id))) return false
  // The effects first: handlers publish, too.
  const local = new Set((await readLocalEffects(sql)).map(({ consumer, id }) => `${consumer} ${id}`))
  return (await readLocal(sql)).every(({ id }) =>
    LOCAL_CONSUMERS.every((consumer) => local.has(`${consumer} ${id}`)),
  )
}

/** Whether the messages of the outbox are published and have their effects. */
async function isPublished({ recorder }: RunParts, sql: Sql): Promise<boolean> {
  const committed = await readCommitted(sql)
  if (!committed.every(({ id }) => recorder.first.has(id))) return false
  const effects = new Set((await readEffects(sql)).map(({ id }) => id))
  return [...recorder.first.keys()].every((id) => effects.has(id)) && (await recorder.backlog()) === 0
}

interface Redriven {
  readonly ids: readonly string[]
  readonly queueIds: readonly string[]
  readonly local: readonly LocalDeadLetter[]
}

/** A dead letter can be handled once its illness is removed. */
async function redrive(engine: Engine, url: string, redriven: Redriven): Promise<void> {
  if (redriven.ids.length + redriven.queueIds.length + redriven.local.length === 0) return
  if (engine === 'postgres') {
    const pool = new Pool({ connectionString: url, max: 1 })
    try {
      await redriveIn(postgres({ db: pool }), redriven)
    } finally {
      await pool.end()
    }
    return
  }
  const pool = mysql2.createPool({ uri: url, connectionLimit: 1 })
  try {
    await redriveIn(mysql({ db: pool }), redriven)
  } finally {
    await pool.end()
  }
}

async function redriveIn<Tx>(
  database: ConnectedDatabase<Tx>,
  { ids, queueIds, local }: Redriven,
): Promise<void> {
  const deadLetters = createDeadLetters({ database })
  if (ids.length > 0) await deadLetters.redrive({ ids })
  if (queueIds.length > 0) await createQueue({ database, name: QUEUE }).deadLetters.redrive({ ids: queueIds })
  for (const consumer of LOCAL_CONSUMERS) {
    const letters = local.filter((letter) => letter.consumer === consumer)
    if (letters.length > 0) await deadLetters.redrive({ consumer, ids: letters.map(({ id }) => id) })
  }
}
