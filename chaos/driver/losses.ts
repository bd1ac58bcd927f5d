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

/** The exact losses of the failovers of a run: the difference between each former primary and the new one. */
export class Losses {
  /** Messages that were committed on a former primary only. They may have been published, or not. */
  readonly committed = new Map<string, Committed>()
  /** How many effects were lost, which the broker did not deliver again by itself. */
  effects = 0
  /** Of former primaries: the new one has only what came to it. */
  readonly leaseChanges: LeaseChange[] = []
  readonly unfenced: Unfenced[] = []
  /** When the failovers were, in ms since 1970. */
  readonly failovers: number[] = []

  /** @returns the messages whose effects were lost, for a redelivery. */
  async compare(formerUrl: string, presentUrl: string): Promise<readonly string[]> {
    // The former primary first: the present one only gains rows.
    const former = await withDirectConnection(formerUrl, async (sql) => ({
      committed: await readCommitted(sql),
      effects: await readEffects(sql),
      leaseChanges: await readLeaseChanges(sql),
      unfenced: await readUnfenced(sql),
    }))
    const present = await withDirectConnection(presentUrl, async (sql) => ({
      committed: new Set((await readCommitted(sql)).map(({ id }) => id)),
      effects: new Set((await readEffects(sql)).map(({ id }) => id)),
    }))
    for (const message of former.committed) {
      if (!present.committed.has(message.id)) this.committed.set(message.id, message)
    }
    this.leaseChanges.push(...former.leaseChanges)
    this.unfenced.push(...former.unfenced)
    const effects = former.effects.map(({ id }) => id).filter((id) => !present.effects.has(id))
    this.effects += effects.length
    return effects
  }
}
