import { stuckKey } from '../check/checks.ts'
import { checkQueueOrder, checkQueueOverlap, wrongEffects } from '../check/queue-checks.ts'
import { readHandled, readQueueEffects, readVanished, type StuckKey } from '../check/queue-history.ts'
import { ofKey, type CheckName, type Violation } from '../check/violation.ts'
import { withDirectConnection } from '../database/direct-connection.ts'
import type { Engine } from '../database/engine.ts'
import type { Sql } from '../database/sql.ts'

/** Rows that are newer than the last row of the look this many looks ago are examined again: transactions commit late. */
const LOOK_BACK_LOOKS = 20

/**
 * The checks of the queue in each quiet time. A message, its effect and its row in the ledger are in one database, so that
 * one statement shows whether they agree, without waiting.
 */
export class OnlineQueueChecks {
  readonly #engine: Engine
  readonly #url: () => string
  readonly #stuckKeys: () => readonly StuckKey[]
  /** The last serial numbers of the ledger and of the effects, at earlier looks. */
  #looks: { readonly queued: number; readonly effects: number }[] = []

  /** @param stuckKeys the stuck keys that were found so far. */
  constructor(engine: Engine, url: () => string, stuckKeys: () => readonly StuckKey[]) {
    this.#engine = engine
    this.#url = url
    this.#stuckKeys = stuckKeys
  }

  /** After a failover the server assigns serial numbers again. */
  forget(): void {
    this.#looks = []
  }

  /** @returns at most one violation of each check. */
  look(): Promise<readonly (Violation | undefined)[]> {
    return withDirectConnection(this.#url(), async (sql) => {
      const after = this.#looks.at(-LOOK_BACK_LOOKS) ?? { queued: 0, effects: 0 }
      this.#looks.push(await this.#last(sql))
      const [stuck] = this.#stuckKeys()
      const [vanished] = await readVanished(this.#engine, sql, after.queued)
      const queueEffects = await readQueueEffects(sql, after.effects)
      const queued = new Map((await readHandled(sql, after.effects)).map((message) => [message.id, message]))
      // Dead letters are redriven at the end only.
      const record = { queued, queueEffects, queueDeadLetters: [] }
      return [
        named('stuck key', stuck && stuckKey(stuck)),
        named(
          'queue effect',
          vanished && {
            id: vanished.id,
            key: vanished.key,
            text: `The message ${vanished.id}${ofKey(vanished.key)} is neither in the queue nor has it an effect.`,
          },
        ),
        named('queue effect', wrongEffects(record)[0]),
        checkQueueOrder(record).violations[0],
        checkQueueOverlap(record).violations[0],
      ]
    })
  }

  async #last(sql: Sql): Promise<{ readonly queued: number; readonly effects: number }> {
    const [row] = await sql.query(
      `select (select max(serial) from chaos_queued) as queued, (select max(serial) from chaos_queue_effects) as effects`,
    )
    return { queued: Number(row?.['queued'] ?? 0), effects: Number(row?.['effects'] ?? 0) }
  }
}

function named(check: CheckName, violation: Omit<Violation, 'check'> | undefined): Violation | undefined {
  return violation && { check, ...violation }
}
