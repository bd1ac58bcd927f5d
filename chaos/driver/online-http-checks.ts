import { wrongCharges } from '../check/charge-checks.ts'
import { readCharges } from '../check/charge-history.ts'
import { checkHttpAnswers, wrongHttpEffects, withoutResponse } from '../check/http-checks.ts'
import { countClaimsWithoutResponse, readHttpEffects, readHttpTwice } from '../check/http-history.ts'
import type { CheckName, Violation } from '../check/violation.ts'
import { withDirectConnection } from '../database/direct-connection.ts'
import type { Engine } from '../database/engine.ts'
import type { HttpLog } from './http-log.ts'
import type { Losses } from './losses.ts'

/** Effects that are newer than the last one of the look this many looks ago are examined again: transactions commit late. */
const LOOK_BACK_LOOKS = 20

interface Subject {
  readonly engine: Engine
  readonly url: () => string
  readonly httpLog: HttpLog
  /** The log of the provider of payments. */
  readonly chargeLog: string
  readonly losses: Losses
}

/** The checks of HTTP requests in each quiet time. A claim, its response and its effect are in one database. */
export class OnlineHttpChecks {
  readonly #subject: Subject
  /** The last serial numbers of the effects, at earlier looks. */
  #serials: number[] = []

  constructor(subject: Subject) {
    this.#subject = subject
  }

  /** After a failover the server assigns serial numbers again. */
  forget(): void {
    this.#serials = []
  }

  /** @returns at most one violation of each check. */
  look(): Promise<readonly (Violation | undefined)[]> {
    // Before the effects: the effect of an answer is there already.
    const { engine, url, httpLog, chargeLog, losses } = this.#subject
    httpLog.read()
    const { calls } = httpLog
    return withDirectConnection(url(), async (sql) => {
      const [empty] = withoutResponse(await countClaimsWithoutResponse(engine, sql))
      const httpEffects = await readHttpEffects(sql, this.#serials.at(-LOOK_BACK_LOOKS) ?? 0)
      // A second effect may come long after the first one.
      const [twice] = wrongHttpEffects(await readHttpTwice(sql))
      const [wrong] = wrongHttpEffects(httpEffects)
      this.#serials.push(httpEffects.at(-1)?.serial ?? this.#serials.at(-1) ?? 0)
      const keys = new Set(httpEffects.map(({ key }) => key))
      const httpCalls = calls.filter(({ key }) => keys.has(key))
      const record = { httpCalls, httpEffects, httpLost: losses.http }
      const charges = readCharges(chargeLog)
      // A request that was sent since the log of the client was read may have a charge.
      const sent = new Set(calls.map(({ key }) => key))
      const [wrongCharge] = wrongCharges({
        httpCalls: calls,
        charges: charges.filter(({ key }) => sent.has(key)),
        failovers: losses.failovers,
      })
      return [
        named('http effect', twice ?? wrong),
        named('http response', empty),
        named('http charge', wrongCharge),
        checkHttpAnswers(record).violations[0],
      ]
    })
  }
}

function named(check: CheckName, violation: Omit<Violation, 'check'> | undefined): Violation | undefined {
  return violation && { check, ...violation }
}
