// The handler of the requests under a lease. It calls a provider of payments, which keeps a log: an effect that nothing rolls back.
import { randomUUID } from 'node:crypto'
import { appendFileSync } from 'node:fs'
import { setImmediate as nextTurn, setTimeout as pause } from 'node:timers/promises'
import type { HttpResponse, RequestContext } from '@txbox/idempotency-key'
import { PAYMENTS, chargeLogOf, type ChargeEntry, type Order } from './http-protocol.ts'
import { suffer } from './illness.ts'
import { steadyNow, type Worker } from './worker.ts'

/** @throws the signal's reason, when the lease has been lost before the charge has ended. */
export async function charge(
  worker: Worker,
  { key, idempotencyKey, signal }: RequestContext,
  { ill }: Order,
): Promise<HttpResponse> {
  const { draw, config } = worker
  const id = randomUUID()
  const log = (what: ChargeEntry['what'], atMs: number): void => {
    const entry: ChargeEntry = {
      what,
      id,
      key: key!,
      providerKey: idempotencyKey!,
      worker: worker.name,
      atMs,
    }
    appendFileSync(chargeLogOf(config.httpFolder), `${JSON.stringify(entry)}\n`)
  }
  log('began', steadyNow())
  // While the lease is held, the client sends the request again.
  if (draw.chance(0.2)) await pause(draw.integer(0, 150))
  await suffer(worker, ill)
  // After a freeze, the timers run first, so that this process notices that its lease has ended.
  await nextTurn()
  const endedMs = steadyNow()
  signal.throwIfAborted()
  log('ended', endedMs)
  return {
    status: 201,
    headers: { 'content-type': 'application/json', location: `${PAYMENTS}/${id}` },
    body: JSON.stringify({ id }),
  }
}
