import { ORDERS } from '../workers/http-protocol.ts'
import {
  isAcknowledgment,
  isAnswered,
  type HttpCall,
  type HttpEffect,
  type HttpRecord,
} from './http-history.ts'
import { found, type Verdict, type Violation } from './violation.ts'

type Checked = Omit<Verdict, 'check'>
type Found = Omit<Violation, 'check'>

/** The statuses that a service may answer at any time instead of a 2xx: the request is in flight, or cannot be completed now. */
const REFUSALS: ReadonlySet<number> = new Set([409, 503])
/** The illnesses of requests whose handler throws, which is a 500. A lost database is none. */
const THROWING: ReadonlySet<string | undefined> = new Set(['throw', 'hang'])

/** A request and its effect are in one database: a failover loses the claim, the response and the effect, or none of them. */
export function checkHttpEffects(record: HttpRecord): Checked {
  const { httpEffects, httpLost } = record
  const httpCalls = ordersOf(record)
  const effects = byKey(httpEffects)
  const lost = new Set(httpLost.map(({ id }) => id))
  const sent = new Set(httpCalls.map(({ key }) => key))
  const missing = [...byKey(httpCalls)].filter(([key, calls]) => {
    const ids = calls.flatMap(({ answers }) => answers.filter(isAcknowledgment).map(({ id }) => id))
    return !effects.has(key) && ids.some((id) => id === undefined || !lost.has(id))
  })
  const unknown = [...effects.keys()].filter((key) => !sent.has(key))
  return found('http effect', sent.size, [
    ...missing.map(([key]) => ({ id: key, text: `The ${key} was answered, and has no effect.` })),
    ...unknown.map((key) => ({ id: key, text: `The ${key} has an effect, and was never sent.` })),
    ...wrongHttpEffects(httpEffects),
  ])
}

/** Second effects, and effects of handlers that have failed: also before all requests are answered. */
export function wrongHttpEffects(httpEffects: readonly HttpEffect[]): readonly Found[] {
  const unended = httpEffects.filter(({ endedMs }) => endedMs === 0)
  const failed = unended.map(({ id, key, worker }) => ({
    id: key,
    text: `The effect ${id} of the ${key} is committed, though its handler in ${worker} has not ended.`,
  }))
  const second = [...byKey(httpEffects)]
    .filter(([, effects]) => effects.length > 1)
    .map(([key, effects]) => ({
      id: key,
      text: `The ${key} has ${effects.length} effects: ${effects.map(({ id, worker }) => `${id} by ${worker}`).join(', ')}.`,
    }))
  return [...second, ...failed]
}

/** An answer that names a lost effect is correct. Only a request with an effect has an id to compare with. */
export function checkHttpAnswers(record: Omit<HttpRecord, 'httpResponses'>): Checked {
  const { httpEffects, httpLost } = record
  const httpCalls = ordersOf(record)
  const known = byKey([...httpEffects, ...httpLost])
  const violations = httpCalls.flatMap((call): readonly Found[] => [
    ...unexplainedAnswers(call),
    ...call.answers.filter(isAcknowledgment).flatMap(({ status, id, service, isReplayed }) => {
      const ids = known.get(call.key)?.map((effect) => effect.id)
      if (ids === undefined || (id !== undefined && ids.includes(id))) return []
      const response = `${isReplayed ? 'the stored' : 'a new'} response ${id ?? 'without an id'}`
      const from = `${service} answered the ${call.key} with ${status}`
      return [{ id: call.key, text: `${from} and ${response}; its effect is ${ids.join(', ')}.` }]
    }),
  ])
  return found(
    'http answer',
    httpCalls.reduce((sum, { answers }) => sum + answers.length, 0),
    violations,
  )
}

/** Answers that are neither a 2xx nor a refusal, unless the handler was made to fail. */
export function unexplainedAnswers({ key, ill, answers }: HttpCall): readonly Found[] {
  return answers
    .filter((answer) => !isAcknowledgment(answer))
    .filter(({ status }) => !REFUSALS.has(status) && !(status === 500 && THROWING.has(ill)))
    .map(({ status, service }) => ({
      id: key,
      text: `${service} answered the ${key} with ${status}, which nothing explains.`,
    }))
}

function ordersOf({ httpCalls }: Pick<HttpRecord, 'httpCalls'>): readonly HttpCall[] {
  return httpCalls.filter(({ path }) => path === ORDERS)
}

/** A claim, its stored response and the effect commit together. */
export function checkHttpResponses({ httpEffects, httpResponses }: HttpRecord): Checked {
  const stored = new Set(httpResponses)
  const effects = new Set(httpEffects.map(({ id }) => id))
  const empty = httpResponses.filter((id) => id === undefined).length
  return found('http response', httpResponses.length, [
    ...withoutResponse(empty),
    ...httpEffects
      .filter(({ id }) => !stored.has(id))
      .map(({ id, key }) => ({ id: key, text: `The effect ${id} of the ${key} has no stored response.` })),
    ...httpResponses
      .filter((id) => id !== undefined && !effects.has(id))
      .map((id) => ({ text: `The response ${id} is stored, and its effect does not exist.` })),
  ])
}

export function withoutResponse(claims: number): readonly Found[] {
  return claims === 0
    ? []
    : [{ text: `The number of claims of HTTP requests that are committed without a response: ${claims}.` }]
}

/** Requests that waited too long during the run, and those that were not answered when the faults were over. */
export function checkHttpStandstill({
  httpCalls,
  httpStandstills,
}: Pick<HttpRecord, 'httpCalls'> & { readonly httpStandstills: readonly string[] }): Checked {
  const unanswered = httpCalls.filter((call) => !isAnswered(call))
  return found('http standstill', httpCalls.length, [
    ...httpStandstills.map((text) => ({ text })),
    ...unanswered.map((call) => ({
      id: call.key,
      text: `The ${call.key} was not answered until the end; ${lastAnswer(call)}.`,
    })),
  ])
}

export function lastAnswer({ answers }: HttpCall): string {
  const last = answers.at(-1)
  return last === undefined
    ? 'no answer came'
    : `the last of ${answers.length} answers was ${last.status} by ${last.service}`
}

function byKey<T extends { readonly key: string }>(list: readonly T[]): ReadonlyMap<string, readonly T[]> {
  return Map.groupBy(list, ({ key }) => key)
}
