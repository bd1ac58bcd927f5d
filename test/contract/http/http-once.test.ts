import { setTimeout } from 'node:timers/promises'
import { expect, test } from 'vitest'
import {
  IdempotencyUnderTest,
  isReplayed,
  post,
  textOf,
  withKey,
} from '../../support/subjects/idempotency-under-test.ts'
import { onEachKindAndIsolation, useRoot, useTarget } from '../../support/engines/target.ts'
import { Gate } from '../../support/worlds/broker.ts'

const target = useTarget()
const REQUESTS = 12

onEachKindAndIsolation(target, (kind, isolation) => {
  const root = useRoot(target, kind, { isolation, max: REQUESTS + 2 })

  test(`H1 of ${REQUESTS} equal requests at once one takes effect, and each gets its response or 409`, async () => {
    const subject = new IdempotencyUnderTest(target, root)
    const responses = await Promise.all(Array.from({ length: REQUESTS }, () => subject.handle()))
    expect([await subject.effects(), subject.calls]).toEqual([1, 1])
    for (const response of responses) expect([201, 409]).toContain(response.status)
    const created = responses.filter(({ status }) => status === 201)
    expect(created.filter((response) => !isReplayed(response)).length).toBe(1)
    for (const response of created) expect(textOf(response)).toBe('{"order":1}')
    const last = await subject.handle()
    expect([last.status, textOf(last), isReplayed(last)]).toEqual([201, '{"order":1}', true])
    expect(subject.errors).toEqual([])
  })

  test('H1 requests at once in two processes: one effect, also if each retries until it has a response', async () => {
    const subject = new IdempotencyUnderTest(target, root)
    const other = new IdempotencyUnderTest(target, root, { name: subject.name })
    const untilAnswered = async (one: IdempotencyUnderTest): Promise<string> => {
      for (;;) {
        const response = await one.handle()
        if (response.status === 201) return textOf(response)
        expect(response.status).toBe(409)
        expect(response.headers?.['retry-after']).toBe('1')
        await setTimeout(5)
      }
    }
    const bodies = await Promise.all(
      Array.from({ length: REQUESTS }, (_, n) => untilAnswered(n % 2 === 0 ? subject : other)),
    )
    expect(new Set(bodies)).toEqual(new Set(['{"order":1}']))
    expect([await subject.effects(), subject.calls + other.calls]).toEqual([1, 1])
  })

  test('H10 while the first request is handled, another process answers 409 to any body, and 422 to another body afterwards', async () => {
    const subject = new IdempotencyUnderTest(target, root)
    const other = new IdempotencyUnderTest(target, root, { name: subject.name })
    const gate = new Gate()
    const first = subject.handleThrough(gate)
    await gate.reached()
    const body = Buffer.from('{"sku":"B"}')
    expect((await other.handle()).status).toBe(409)
    expect((await other.handle({ body })).status).toBe(409)
    expect((await subject.handle()).status).toBe(409)
    expect((await subject.handle({ body })).status).toBe(422)
    gate.open()
    expect((await first).status).toBe(201)
    for (const one of [subject, other]) expect((await one.handle({ body })).status).toBe(422)
    expect(isReplayed(await other.handle())).toBe(true)
    expect(await subject.effects()).toBe(1)
  })

  test('H29 requests that wait for the first one get its response, and hold no connection', async () => {
    const whileInFlight = { waitMs: 20_000 }
    const subject = new IdempotencyUnderTest(target, root, { whileInFlight })
    const other = new IdempotencyUnderTest(target, root, { whileInFlight, name: subject.name })
    const gate = new Gate()
    const first = subject.handleThrough(gate)
    await gate.reached()
    // More requests than connections.
    const waiting = Array.from({ length: 3 * REQUESTS }, (_, n) => (n % 2 === 0 ? subject : other).handle())
    const free = Array.from({ length: REQUESTS / 2 }, async () => {
      const transaction = await root.begin()
      await transaction.rollback()
    })
    await Promise.all(free)
    gate.open()
    expect((await first).status).toBe(201)
    for (const response of await Promise.all(waiting)) {
      expect([response.status, isReplayed(response)]).toEqual([201, true])
    }
    expect(await subject.effects()).toBe(1)
  })

  test('H29 a request that has waited for waitMs gets 409, and not earlier', async () => {
    const subject = new IdempotencyUnderTest(target, root, { whileInFlight: { waitMs: 400 } })
    const other = new IdempotencyUnderTest(target, root, {
      name: subject.name,
      whileInFlight: { waitMs: 400 },
    })
    const gate = new Gate()
    const first = subject.handleThrough(gate)
    await gate.reached()
    for (const one of [subject, other]) {
      const startedAt = performance.now()
      expect((await one.handle()).status).toBe(409)
      expect(performance.now() - startedAt).toBeGreaterThanOrEqual(399)
    }
    gate.open()
    await first
  })

  test('H3 H11 a handler that throws leaves nothing: the error reaches the caller, and the next request runs', async () => {
    const subject = new IdempotencyUnderTest(target, root)
    const refusal = new Error('no such article')
    const failing = subject.handle({}, async (tx, about) => {
      await subject.create(tx, about)
      throw refusal
    })
    await expect(failing).rejects.toBe(refusal)
    expect(await subject.effects()).toBe(0)
    const response = await subject.handle()
    expect([response.status, isReplayed(response), await subject.effects()]).toEqual([201, false, 1])
    expect(subject.errors).toEqual([])
  })

  test('H3 H11 when the first request of many fails, another one runs', async () => {
    const subject = new IdempotencyUnderTest(target, root, { whileInFlight: { waitMs: 20_000 } })
    const other = new IdempotencyUnderTest(target, root, {
      name: subject.name,
      whileInFlight: { waitMs: 20_000 },
    })
    let failures = 3
    const responses = await Promise.allSettled(
      Array.from({ length: 8 }, (_, n) =>
        (n % 2 === 0 ? subject : other).handle({}, async (tx, about) => {
          const response = await subject.create(tx, about)
          if (failures-- > 0) throw new Error('not now')
          return response
        }),
      ),
    )
    expect(responses.filter(({ status }) => status === 'rejected').length).toBe(3)
    expect(await subject.effects()).toBe(1)
  })

  test('H12 an expired key is new, and replays do not extend the retention', async () => {
    const subject = new IdempotencyUnderTest(target, root)
    await subject.handle()
    const [before] = await target.claims('@http')
    expect(isReplayed(await subject.handle())).toBe(true)
    expect((await target.claims('@http'))[0]).toEqual(before)
    await target.expire('@http')
    const again = await subject.handle({ body: Buffer.from('{}') })
    expect([again.status, isReplayed(again), textOf(again)]).toEqual([201, false, '{"order":2}'])
    expect(await subject.effects()).toBe(2)
  })

  test('H9 a response that is not kept is rolled back and sent as it is, with a key and without', async () => {
    const subject = new IdempotencyUnderTest(target, root, { required: false })
    const failing = post()
    for (const headers of [failing.headers, {}]) {
      const response = await subject.handle({ headers }, async (tx, about) => {
        await subject.create(tx, about)
        return { status: 502, headers: { 'x-cause': 'bank' }, body: 'later' }
      })
      expect([response.status, response.headers?.['x-cause'], textOf(response)]).toEqual([
        502,
        'bank',
        'later',
      ])
    }
    expect(await subject.effects()).toBe(0)
    expect((await subject.handle({ headers: {} })).status).toBe(201)
    expect((await subject.handle({ method: 'GET' })).status).toBe(201)
    expect(await subject.effects()).toBe(2)
    expect(isReplayed(await subject.handle())).toBe(false)
    expect(subject.errors).toEqual([])
  })

  test('H9 keep decides: a refusal can be rolled back, and a failure stored', async () => {
    const subject = new IdempotencyUnderTest(target, root, { keep: (status) => status !== 404 })
    for (const [status, effects] of [
      [404, 0],
      [503, 1],
      [400, 2],
    ] as const) {
      const request = withKey(`k${status}`)
      const refuse = async (...[tx, about]: Parameters<typeof subject.create>) => ({
        ...(await subject.create(tx, about)),
        status,
      })
      expect((await subject.handle(request, refuse)).status).toBe(status)
      expect(await subject.effects()).toBe(effects)
      expect(isReplayed(await subject.handle(request, refuse))).toBe(status !== 404)
    }
  })
})
