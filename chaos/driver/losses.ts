import { withDirectConnection } from '../database/direct-connection.ts'
import {
  readCommitted,
  readEffects,
  readLeaseChanges,
  readUnfenced,
  type Committed,
  type LeaseChange,
  type Unfenced,
} from '../check/history.ts'
import { readHttpEffects, type HttpEffect } from '../check/http-history.ts'
import { readLocal, readLocalEffects, type LocalEffect } from '../check/local-history.ts'
import { readQueueEffects, readQueued } from '../check/queue-history.ts'

/** The exact losses of the failovers of a run: the difference between each former primary and the new one. */
export class Losses {
  /** Messages that were committed on a former primary only. They may have been published, or not. */
  readonly committed = new Map<string, Committed>()
  /** The number of lost effects whose messages the broker did not deliver again by itself. */
  effects = 0
  /** The losses of the queue, whose messages and effects are only in the database. */
  readonly queued = new Map<string, Committed>()
  queueEffects = 0
  /** The losses of the local consumers, likewise. An effect counts for each consumer. */
  readonly local = new Map<string, Committed>()
  localEffects = 0
  /** The effects of HTTP requests that were committed on a former primary only. Their requests may have been answered. */
  readonly http: HttpEffect[] = []
  /** The rows of former primaries: the new primary has only the rows that it received. */
  readonly leaseChanges: LeaseChange[] = []
  readonly unfenced: Unfenced[] = []
  /** The times of the failovers, in ms since 1970. */
  readonly failovers: number[] = []

  /** @returns the messages whose effects were lost, for a redelivery. */
  async compare(formerUrl: string, presentUrl: string): Promise<readonly string[]> {
    // The former primary is read first, because the present primary only gains rows.
    const former = await withDirectConnection(formerUrl, async (sql) => ({
      committed: await readCommitted(sql),
      effects: await readEffects(sql),
      queued: await readQueued(sql),
      queueEffects: await readQueueEffects(sql),
      local: await readLocal(sql),
      localEffects: await readLocalEffects(sql),
      http: await readHttpEffects(sql),
      leaseChanges: await readLeaseChanges(sql),
      unfenced: await readUnfenced(sql),
    }))
    const present = await withDirectConnection(presentUrl, async (sql) => ({
      committed: idsOf(await readCommitted(sql)),
      effects: idsOf(await readEffects(sql)),
      queued: idsOf(await readQueued(sql)),
      queueEffects: idsOf(await readQueueEffects(sql)),
      local: idsOf(await readLocal(sql)),
      localEffects: new Set((await readLocalEffects(sql)).map(effectOf)),
      http: idsOf(await readHttpEffects(sql)),
    }))
    for (const message of former.committed) {
      if (!present.committed.has(message.id)) this.committed.set(message.id, message)
    }
    for (const message of former.queued) {
      if (!present.queued.has(message.id)) this.queued.set(message.id, message)
    }
    this.queueEffects += former.queueEffects.filter(({ id }) => !present.queueEffects.has(id)).length
    for (const message of former.local) {
      if (!present.local.has(message.id)) this.local.set(message.id, message)
    }
    this.localEffects += former.localEffects.filter((one) => !present.localEffects.has(effectOf(one))).length
    this.http.push(...former.http.filter(({ id }) => !present.http.has(id)))
    this.leaseChanges.push(...former.leaseChanges)
    this.unfenced.push(...former.unfenced)
    const effects = former.effects.map(({ id }) => id).filter((id) => !present.effects.has(id))
    this.effects += effects.length
    return effects
  }
}

function effectOf({ consumer, id }: LocalEffect): string {
  return `${consumer} ${id}`
}

function idsOf(rows: readonly { readonly id: string }[]): ReadonlySet<string> {
  return new Set(rows.map(({ id }) => id))
}
