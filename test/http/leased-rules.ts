import { expect, onTestFinished, test } from 'vitest'
import { RequestTimeoutError, type IdempotencyOptions, type RequestContext } from '@txbox/idempotency-key'
import type { Reply, Served } from './framework-rules.ts'
import { send, type Shop, type useOrders } from './http-under-test.ts'

/** A handler that calls another system, whatever the framework. */
export type Charge = (about: RequestContext, body: unknown) => Promise<Reply>

/** The lease of the route. */
export const LEASE = { leaseMs: 20_000 }

/** The rules that a plug-in must keep under a lease. The server has the route `POST /charge`. */
export function leasedRules(
  world: ReturnType<typeof useOrders>,
  serve: (shop: Shop, charge: Charge) => Promise<Served>,
): void {
  async function started(
    charge: Charge,
    options: IdempotencyOptions = {},
  ): Promise<{ shop: Shop; url: string }> {
    const shop = world.create(options)
    const served = await serve(shop, charge)
    onTestFinished(() => served.close())
    return { shop, url: `${served.url}/charge` }
  }

  test('H22 H7 H16 a handler under a lease runs without a transaction, and a retry gets the stored response', async () => {
    const keys: unknown[] = []
    const open: number[] = []
    const { shop, url } = await started(async ({ idempotencyKey }, body) => {
      keys.push(idempotencyKey)
      open.push(await shop.transactions())
      return { status: 201, headers: { location: '/charges/1' }, json: { charge: keys.length, body } }
    })
    const first = await send(url)
    const replay = await send(url)
    expect([first.status, first.isReplayed, first.text]).toEqual([
      201,
      false,
      '{"charge":1,"body":{"sku":"A1"}}',
    ])
    expect([replay.status, replay.isReplayed, replay.text]).toEqual([201, true, first.text])
    expect(replay.headers.get('location')).toBe('/charges/1')
    expect((await send(url, { body: { sku: 'B2' } })).status).toBe(422)
    expect((await send(url, { key: '' })).status).toBe(400)
    expect([keys, open]).toEqual([[expect.stringMatching(/^[0-9a-f]{64}$/)], [0]])
    expect(shop.errors).toEqual([])
  })

  test('H25 what a handler under a lease throws is answered by the framework, and the next request runs with the same key', async () => {
    const keys: unknown[] = []
    const { shop, url } = await started(async ({ idempotencyKey }) => {
      keys.push(idempotencyKey)
      if (keys.length === 1) throw Object.assign(new Error('declined'), { statusCode: 409, status: 409 })
      return { status: keys.length === 2 ? 502 : 201, json: { charge: keys.length } }
    })
    const statuses = [await send(url), await send(url), await send(url), await send(url)]
    expect(statuses.map(({ status, isReplayed }) => [status, isReplayed])).toEqual([
      [409, false],
      [502, false],
      [201, false],
      [201, true],
    ])
    expect([keys.length, new Set(keys).size, shop.errors]).toEqual([3, 1, []])
  })

  test('H10 H13 while a handler under a lease runs, an equal request is a 409; at timeoutMs its signal is aborted, and the next request runs', async () => {
    const gate = Promise.withResolvers<void>()
    const signals: AbortSignal[] = []
    const reached = Promise.withResolvers<void>()
    const { shop, url } = await started(
      async ({ signal }) => {
        signals.push(signal)
        reached.resolve()
        if (signals.length === 1) await gate.promise
        return { status: 201, json: { charge: signals.length } }
      },
      { timeoutMs: 1000 },
    )
    const first = send(url)
    await reached.promise
    expect((await send(url)).status).toBe(409)
    expect((await first).status).toBe(503)
    expect(signals[0]!.reason).toBeInstanceOf(RequestTimeoutError)
    expect(shop.errors).toEqual([signals[0]!.reason])
    const next = await send(url)
    expect([next.status, next.text]).toEqual([201, '{"charge":2}'])
    gate.resolve()
    expect((await send(url)).text).toBe('{"charge":2}')
  })
}
