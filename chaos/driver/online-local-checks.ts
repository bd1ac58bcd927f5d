import { checkLocalOrder, checkLocalOverlap, wrongLocalEffects } from '../check/local-checks.ts'
import { readLocalEffects, readLocalHandled, readLocalVanished } from '../check/local-history.ts'
import { ofKey, type Violation } from '../check/violation.ts'
import { withDirectConnection } from '../database/direct-connection.ts'
import type { Engine } from '../database/engine.ts'
import type { Sql } from '../database/sql.ts'
import { LOCAL_CONSUMERS } from '../workers/worker-protocol.ts'

/** Rows that are newer than the last row of the look this many looks ago are examined again: transactions commit late. */
const LOOK_BACK_LOOKS = 20

/**
 * The checks of the local consumers in each quiet time. A message, its effects and its row in the ledger are in one database, so
 * that one statement shows whether they agree, without waiting.
 */
export class OnlineLocalChecks {
  readonly #engine: Engine
  readonly #url: () => string
  /** The last serial numbers of the ledger and of the effects, at earlier looks. */
  #looks: { readonly local: number; readonly effects: number }[] = []

  constructor(engine: Engine, url: () => string) {
    this.#engine = engine
    this.#url = url
  }

  /** After a failover the server assigns serial numbers again. */
  forget(): void {
    this.#looks = []
  }

  /** @returns at most one violation of each check. */
  look(): Promise<readonly (Violation | undefined)[]> {
    return withDirectConnection(this.#url(), async (sql) => {
      const after = this.#looks.at(-LOOK_BACK_LOOKS) ?? { local: 0, effects: 0 }
      this.#looks.push(await this.#last(sql))
      const vanished = await this.#vanished(sql, after.local)
      const localEffects = await readLocalEffects(sql, after.effects)
      const local = new Map(
        (await readLocalHandled(sql, after.effects)).map((message) => [message.id, message]),
      )
      // Dead letters are redriven at the end only.
      const record = { local, localEffects, localDeadLetters: [] }
      const [wrong] = wrongLocalEffects(record)
      return [
        vanished,
        wrong && { check: 'local effect', ...wrong },
        checkLocalOrder(record).violations[0],
        checkLocalOverlap(record).violations[0],
      ]
    })
  }

  async #vanished(sql: Sql, after: number): Promise<Violation | undefined> {
    for (const consumer of LOCAL_CONSUMERS) {
      const [message] = await readLocalVanished(this.#engine, sql, consumer, after)
      if (message === undefined) continue
      const { id, key } = message
      return {
        check: 'local effect',
        id,
        key,
        text: `The message ${id}${ofKey(key)} is not stored for ${consumer}, and has no effect there.`,
      }
    }
    return undefined
  }

  async #last(sql: Sql): Promise<{ readonly local: number; readonly effects: number }> {
    const [row] = await sql.query(
      `select (select max(serial) from chaos_local) as local_serial, (select max(serial) from chaos_local_effects) as effects`,
    )
    return { local: Number(row?.['local_serial'] ?? 0), effects: Number(row?.['effects'] ?? 0) }
  }
}
