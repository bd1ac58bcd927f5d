import { checkHttpAnswers, wrongHttpEffects, withoutResponse } from '../check/http-checks.ts'
import { countClaimsWithoutResponse, readHttpEffects, readHttpTwice } from '../check/http-history.ts'
import type { CheckName, Violation } from '../check/violation.ts'
import { withDirectConnection } from '../database/direct-connection.ts'
import type { Engine } from '../database/engine.ts'
import type { HttpLog } from './http-log.ts'
import type { Losses } from './losses.ts'

/** Effects that are newer than the last one of the look this many looks ago are examined again: transactions commit late. */
const LOOK_BACK_LOOKS = 20

/** The checks of HTTP requests in each quiet time. A claim, its response and its effect are in one database. */
export class OnlineHttpChecks {
  readonly #engine: Engine
  readonly #url: () => string
  readonly #log: HttpLog
  readonly #losses: Losses
  /** The last serial numbers of the effects, at earlier looks. */
  #serials: number[] = []

  constructor(engine: Engine, url: () => string, log: HttpLog, losses: Losses) {
    this.#engine = engine
    this.#url = url
    this.#log = log
    this.#losses = losses
  }

  /** After a failover the server assigns serial numbers again. */
  forget(): void {
    this.#serials = []
  }

  /** @returns at most one violation of each check. */
  look(): Promise<readonly (Violation | undefined)[]> {
    // Before the effects: the effect of an answer is there already.
    this.#log.read()
    return withDirectConnection(this.#url(), async (sql) => {
      const [empty] = withoutResponse(await countClaimsWithoutResponse(this.#engine, sql))
      const httpEffects = await readHttpEffects(sql, this.#serials.at(-LOOK_BACK_LOOKS) ?? 0)
      // A second effect may come long after the first one.
      const [twice] = wrongHttpEffects(await readHttpTwice(sql))
      const [wrong] = wrongHttpEffects(httpEffects)
      this.#serials.push(httpEffects.at(-1)?.serial ?? this.#serials.at(-1) ?? 0)
      const keys = new Set(httpEffects.map(({ key }) => key))
      const httpCalls = this.#log.calls.filter(({ key }) => keys.has(key))
      const record = { httpCalls, httpEffects, httpLost: this.#losses.http }
      return [
        named('http effect', twice ?? wrong),
        named('http response', empty),
        checkHttpAnswers(record).violations[0],
      ]
    })
  }
}

function named(check: CheckName, violation: Omit<Violation, 'check'> | undefined): Violation | undefined {
  return violation && { check, ...violation }
}
