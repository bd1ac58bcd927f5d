import { PAYMENTS } from '../workers/http-protocol.ts'
import type { Charge, ChargeRecord } from './charge-history.ts'
import { unexplainedAnswers } from './http-checks.ts'
import { isAcknowledgment, type HttpAnswer, type HttpCall } from './http-history.ts'
import { found, type Verdict, type Violation } from './violation.ts'

type Found = Omit<Violation, 'check'>

/** The clocks of two processes may differ by this much. */
const CLOCKS_MS = 20
/** A failover may have lost transactions that were committed up to this long before it, also extensions of leases. */
const FAILOVER_MS = 15_000

/** Checks the requests under a lease: their effect happens at least once, and all answers name one of the calls of the provider. */
export function checkCharges(record: ChargeRecord): Omit<Verdict, 'check'> {
  return found('http charge', paymentsOf(record).length, [...wrongCharges(record), ...wrongStored(record)])
}

/** Finds the violations that can be seen while requests are still being handled. */
export function wrongCharges(record: Omit<ChargeRecord, 'leasedResponses'>): readonly Found[] {
  const payments = paymentsOf(record)
  const charges = Map.groupBy(record.charges, ({ key }) => key)
  const sent = new Set(payments.map(({ key }) => key))
  return [
    ...payments.flatMap(unexplainedAnswers),
    ...[...Map.groupBy(payments, ({ key }) => key)].flatMap(([key, calls]) =>
      wrongAnswers(key, calls, charges.get(key) ?? [], record.failovers),
    ),
    ...[...charges.keys()]
      .filter((key) => !sent.has(key))
      .map((key) => ({ id: key, text: `The ${key} was charged, and was never sent.` })),
    ...[...charges.values()].flatMap((calls) => atOnce(calls, record.failovers)),
    ...wrongProviderKeys(record.charges),
  ]
}

function paymentsOf({ httpCalls }: Pick<ChargeRecord, 'httpCalls'>): readonly HttpCall[] {
  return httpCalls.filter(({ path }) => path === PAYMENTS)
}

/** Each 2xx names a charge of its request, and two name different ones only after a failover has lost a response. */
function wrongAnswers(
  key: string,
  calls: readonly HttpCall[],
  charges: readonly Charge[],
  failovers: readonly number[],
): readonly Found[] {
  const ended = new Set(charges.filter(({ endedMs }) => endedMs !== undefined).map(({ id }) => id))
  const answers = calls
    .flatMap((call) => call.answers.filter(isAcknowledgment))
    .toSorted((a, b) => a.atMs - b.atMs)
  const unknown = answers.filter(({ id }) => id === undefined || !ended.has(id))
  const other = answers.find((answer, n) => {
    const before = answers[n - 1]
    return before !== undefined && before.id !== answer.id && !isNear(failovers, before, answer)
  })
  return [
    ...unknown.map(({ id, service }) => ({
      id: key,
      text: `${service} answered the ${key} with the response ${id ?? 'without an id'}, which no charge has given.`,
    })),
    ...(other === undefined
      ? []
      : [
          {
            id: key,
            text: `The ${key} was answered with different responses: ${answers.map(({ id }) => id).join(', ')}.`,
          },
        ]),
  ]
}

function isNear(failovers: readonly number[], before: HttpAnswer, after: HttpAnswer): boolean {
  return failovers.some((atMs) => before.atMs - FAILOVER_MS < atMs && atMs < after.atMs + FAILOVER_MS)
}

/** Two handlers never hold the lease of one request, unless a failover has lost it. */
function atOnce(charges: readonly Charge[], failovers: readonly number[]): readonly Found[] {
  return charges.flatMap((one, n) =>
    charges
      .slice(n + 1)
      .filter(
        (next) =>
          one.endedMs !== undefined &&
          next.beganMs < one.endedMs - CLOCKS_MS &&
          !failovers.some((atMs) => Math.abs(atMs - next.beganMs) < FAILOVER_MS),
      )
      .map((next) => ({
        id: one.key,
        text: `Two handlers of the ${one.key} ran under a lease at once: ${one.id} by ${one.worker} and ${next.id} by ${next.worker}.`,
      })),
  )
}

/** All calls for one request give the provider one key, and no other request has it. */
function wrongProviderKeys(charges: readonly Charge[]): readonly Found[] {
  const pairs = new Map(
    charges.map(({ key, providerKey }) => [`${key} ${providerKey}`, { key, providerKey }]),
  )
  const several = [...Map.groupBy(pairs.values(), ({ key }) => key)].filter(([, list]) => list.length > 1)
  const shared = [...Map.groupBy(pairs.values(), ({ providerKey }) => providerKey)].filter(
    ([, list]) => list.length > 1,
  )
  return [
    ...several.map(([key]) => ({ id: key, text: `The provider got several keys for the ${key}.` })),
    ...shared.map(([, list]) => ({
      id: list[0]!.key,
      text: `The provider got one key for ${list.map(({ key }) => key).join(' and ')}.`,
    })),
  ]
}

/** At the end, each lease has the response of a charge, unless a failover has lost it after the client got it. */
function wrongStored({ charges, leasedResponses, failovers }: ChargeRecord): readonly Found[] {
  const known = new Set(charges.map(({ id }) => id))
  const stored = new Set(leasedResponses)
  const lost = charges.filter(
    ({ id, endedMs }) =>
      endedMs !== undefined &&
      !stored.has(id) &&
      failovers.some((atMs) => atMs - FAILOVER_MS < endedMs && endedMs < atMs + FAILOVER_MS),
  ).length
  const empty = Math.max(0, leasedResponses.filter((id) => id === undefined).length - lost)
  return [
    ...(empty === 0
      ? []
      : [{ text: `The number of leases of HTTP requests that have no response: ${empty}.` }]),
    ...leasedResponses
      .filter((id) => id !== undefined && !known.has(id))
      .map((id) => ({ text: `The response ${id} is stored for a lease, and no charge has given it.` })),
  ]
}
