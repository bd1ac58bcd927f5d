import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { connectedPortsOf } from '@txbox/core/internal'
import { InvalidOptionError, type LeasedWork } from '@txbox/idempotency-key'
import { onEachRoot, useRoot, useTarget } from '../../support/engines/target.ts'
import {
  IdempotencyUnderTest,
  isReplayed,
  post,
  textOf,
  withKey,
} from '../../support/subjects/idempotency-under-test.ts'
import { Gate } from '../../support/worlds/broker.ts'

const target = useTarget()
const onPostgres = target.engine === 'postgres'
const REQUESTS = 10
const tableOf = (name: string): string => target.outboxTable.replace(/outbox$/, name)

onEachRoot(target, (kind) => {
  const root = useRoot(target, kind, { max: REQUESTS })
  const pair = (options: ConstructorParameters<typeof IdempotencyUnderTest>[2] = {}) => {
    const subject = new IdempotencyUnderTest(target, root, options)
    return [subject, new IdempotencyUnderTest(target, root, { ...options, name: subject.name })] as const
  }

  test('H22 of equal requests at once in two processes one runs, and each gets its response or 409', async () => {
    const [subject, other] = pair()
    const responses = await Promise.all(
      Array.from({ length: 2 * REQUESTS }, (_, n) => (n % 2 === 0 ? subject : other).handleLeased()),
    )
    expect(subject.calledWith.length + other.calledWith.length).toBe(1)
    for (const { status } of responses) expect([201, 409]).toContain(status)
    const created = responses.filter(({ status }) => status === 201)
    expect(created.filter((response) => !isReplayed(response)).length).toBe(1)
    for (const response of created) expect(textOf(response)).toBe('{"charge":1}')
    const last = await other.handleLeased()
    expect([last.status, textOf(last), isReplayed(last)]).toEqual([201, '{"charge":1}', true])
    expect([...subject.errors, ...other.errors]).toEqual([])
  })

  test('H22 a lease is extended while the handler runs, for longer than the lease', async () => {
    const [subject, other] = pair()
    const gate = new Gate()
    const first = subject.handleLeasedThrough(gate, { leaseMs: 1000 })
    await gate.reached()
    for (let n = 0; n < 5; n++) {
      await sleep(500)
      expect((await other.handleLeased()).status).toBe(409)
    }
    gate.open()
    expect((await first).status).toBe(201)
    expect(isReplayed(await other.handleLeased())).toBe(true)
    expect([subject.calledWith.length, other.calledWith.length]).toEqual([1, 0])
  })

  test('H25 keep decides what is stored; what is not kept is sent as it is, and the next request runs', async () => {
    const subject = new IdempotencyUnderTest(target, root, { keep: (status) => status !== 502 })
    const answering =
      (status: number): LeasedWork =>
      async (about) => ({ ...(await subject.charge(about)), status })
    expect((await subject.handleLeased({}, answering(502))).status).toBe(502)
    expect((await subject.handleLeased({}, answering(503))).status).toBe(503)
    const replay = await subject.handleLeased()
    expect([replay.status, isReplayed(replay), subject.calledWith.length]).toEqual([503, true, 2])
  })

  test.for([
    ['is too large', { status: 201, body: 'x'.repeat(1001) }],
    ['has a header that cannot be sent', { status: 201, headers: { 'x-a': 'a\nb' } }],
    ['has no status', {} as never],
  ] as const)('H14 a response that %s is a 500, and the lease is free at once', async ([, response]) => {
    const subject = new IdempotencyUnderTest(target, root, { maxResponseBytes: 1000 })
    const answer = await subject.handleLeased({}, () => response)
    expect([answer.status, answer.headers?.['content-type']]).toEqual([500, 'application/problem+json'])
    expect(subject.errors.length).toBe(1)
    expect((await subject.handleLeased()).status).toBe(201)
  })

  test('H10 another body is a 422 in the process that handles the request and after it, and a 409 elsewhere', async () => {
    const [subject, other] = pair()
    const body = Buffer.from('{"sku":"B"}')
    const gate = new Gate()
    const first = subject.handleLeasedThrough(gate)
    await gate.reached()
    const during = [subject.handleLeased(), subject.handleLeased({ body }), other.handleLeased({ body })]
    expect((await Promise.all(during)).map(({ status }) => status)).toEqual([409, 422, 409])
    gate.open()
    await first
    for (const one of [subject, other]) expect((await one.handleLeased({ body })).status).toBe(422)
    expect(subject.calledWith.length).toBe(1)
  })

  test('H29 requests that wait for the first one get its response, or 409 when waitMs is over', async () => {
    const [subject, other] = pair({ whileInFlight: { waitMs: 20_000 } })
    const hasty = new IdempotencyUnderTest(target, root, {
      name: subject.name,
      whileInFlight: { waitMs: 400 },
    })
    const gate = new Gate()
    const first = subject.handleLeasedThrough(gate)
    await gate.reached()
    const waiting = Array.from({ length: 3 * REQUESTS }, (_, n) =>
      (n % 2 === 0 ? subject : other).handleLeased(),
    )
    const startedAt = performance.now()
    expect((await hasty.handleLeased()).status).toBe(409)
    expect(performance.now() - startedAt).toBeGreaterThanOrEqual(399)
    gate.open()
    expect((await first).status).toBe(201)
    for (const response of await Promise.all(waiting)) {
      expect([response.status, isReplayed(response), textOf(response)]).toEqual([201, true, '{"charge":1}'])
    }
  })

  test('H12 H16 an expired key is new, and has the same idempotency key for other systems', async () => {
    const subject = new IdempotencyUnderTest(target, root)
    expect((await subject.handleLeased()).status).toBe(201)
    await subject.expireLeases()
    const again = await subject.handleLeased({ body: Buffer.from('{}') })
    expect([again.status, isReplayed(again), textOf(again)]).toEqual([201, false, '{"charge":2}'])
    expect(new Set(subject.calledWith).size).toBe(1)
    expect((await subject.handleLeased({ ...withKey('k2'), body: Buffer.from('{}') })).status).toBe(201)
    expect(new Set(subject.calledWith).size).toBe(2)
  })

  test('H26 handle and handleLeased of one name refuse the keys of each other, during and after', async () => {
    const [subject, other] = pair()
    const gate = new Gate()
    const leased = subject.handleLeasedThrough(gate)
    await gate.reached()
    expect([409, 500]).toContain((await other.handle()).status)
    gate.open()
    expect((await leased).status).toBe(201)
    const body = Buffer.from('{}')
    for (const one of [subject, other]) {
      expect((await one.handle()).status).toBe(500)
      expect((await one.handle({ body })).status).toBe(500)
    }
    expect(other.errors.at(-1)).toBeInstanceOf(InvalidOptionError)

    const [second, third] = pair()
    const inner = new Gate()
    const transacted = second.handleThrough(inner)
    await inner.reached()
    expect((await third.handleLeased()).status).toBe(409)
    inner.open()
    expect((await transacted).status).toBe(201)
    for (const one of [second, third]) {
      expect((await one.handleLeased()).status).toBe(500)
      expect(one.errors.at(-1)).toBeInstanceOf(InvalidOptionError)
    }
    expect([await subject.effects(), await second.effects()]).toEqual([0, 1])
    expect([subject.calledWith.length, second.calledWith.length, third.calledWith.length]).toEqual([1, 0, 0])
  })

  test('H26 the refusal of handle lasts as long as the response of handleLeased, also after a request that failed', async () => {
    const subject = new IdempotencyUnderTest(target, root)
    const failing = subject.handleLeased({}, () => Promise.reject(new Error('not now')))
    await expect(failing).rejects.toThrow('not now')
    const soon = onPostgres
      ? "clock_timestamp() + interval '1 minute'"
      : 'utc_timestamp(6) + interval 1 minute'
    await target.sql(`update ${tableOf('inbox')} set expires_at = ${soon}`)
    await subject.handleLeased()
    const refusal = (await target.claims('@http')).find(({ key }) => key.includes(subject.name))
    const [row] = await target.sql(
      onPostgres
        ? `select extract(epoch from max(expires_at)) * 1000 as ms from ${tableOf('dedup_leases')}`
        : `select timestampdiff(microsecond, '1970-01-01', max(expires_at)) / 1000 as ms from ${tableOf('dedup_leases')}`,
    )
    expect(refusal!.expiresAt.getTime()).toBeGreaterThanOrEqual(Number(row!['ms']))
  })

  test('H26 a mark that another transaction has locked is not waited for, and a claim with another result is not extended', async () => {
    const subject = new IdempotencyUnderTest(target, root)
    const failing = subject.handleLeased({}, () => Promise.reject(new Error('not now')))
    await expect(failing).rejects.toThrow('not now')
    const { key, expiresAt } = (await target.claims('@http')).find((one) => one.key.includes(subject.name))!
    const other = await root.begin()
    await target.exec(
      other.tx,
      `select consumer from ${tableOf('inbox')} where consumer = '@http' for update`,
    )
    const since = performance.now()
    expect([409, 503]).toContain((await subject.handleLeased()).status)
    expect(performance.now() - since).toBeLessThan(9000)
    await other.rollback()

    const ports = connectedPortsOf('test', root.database)
    const extend = (result: string): Promise<boolean> =>
      ports.transact(
        (_, session) =>
          ports.inbox.extend(
            session,
            { consumer: '@http', key, result, retentionMs: 10 ** 9 },
            { lockTimeoutMs: 200 },
          ),
        {},
      )
    const expiryOf = async (): Promise<Date> =>
      (await target.claims('@http')).find((one) => one.key === key)!.expiresAt
    expect(await extend('{"s":201}')).toBe(false)
    expect(await expiryOf()).toEqual(expiresAt)
    expect(await extend('{"leased":true}')).toBe(true)
    expect((await expiryOf()).getTime()).toBeGreaterThan(expiresAt.getTime())
    expect((await subject.handleLeased()).status).toBe(201)
  })

  test('H18 H9 a request without a key runs without a lease, and nothing is stored', async () => {
    const subject = new IdempotencyUnderTest(target, root, { required: false, timeoutMs: 300 })
    for (const request of [{ headers: {} }, { method: 'GET' }]) {
      const responses = [await subject.handleLeased(request), await subject.handleLeased(request)]
      expect(responses.map(({ status }) => status)).toEqual([201, 201])
      const failing = subject.handleLeased(request, () => Promise.reject(new Error('no')))
      await expect(failing).rejects.toThrow('no')
      expect((await subject.handleLeased(request, () => ({ status: 502 }))).status).toBe(502)
      expect((await subject.handleLeased(request, () => new Promise(() => undefined))).status).toBe(503)
    }
    expect(subject.calledWith).toEqual([undefined, undefined, undefined, undefined])
  })

  test('H7 a stored response can be sealed, and is replayed to the byte', async () => {
    const flip = (bytes: Uint8Array): Uint8Array => bytes.map((byte) => byte ^ 255)
    const subject = new IdempotencyUnderTest(target, root, { seal: { seal: flip, open: flip } })
    const body = Buffer.from([0, 1, 255, 128])
    const work: LeasedWork = () => ({ status: 201, headers: { etag: '"1"', 'set-cookie': 'a=b' }, body })
    expect((await subject.handleLeased({}, work)).headers?.['set-cookie']).toBe('a=b')
    const replay = await subject.handleLeased({}, work)
    expect([isReplayed(replay), replay.headers?.['etag'], replay.headers?.['set-cookie']]).toEqual([
      true,
      '"1"',
      undefined,
    ])
    expect(body.equals(replay.body as Uint8Array)).toBe(true)
    const rows = await target.sql(`select result from ${tableOf('dedup_leases')} where result like '{"x":%'`)
    expect(rows.length).toBeGreaterThan(0)
  })

  test('a lease out of its bounds, and an unknown option, are refused', async () => {
    const { idempotency } = new IdempotencyUnderTest(target, root)
    for (const leaseMs of [999, 3_600_001, Number.NaN, '1000']) {
      await expect(
        idempotency.handleLeased(post(), () => ({ status: 201 }), { leaseMs: leaseMs as number }),
      ).rejects.toThrow(
        "handleLeased: the option 'leaseMs' must be a number of milliseconds from 1000 to 3600000",
      )
    }
    const unknown = idempotency.handleLeased(post(), () => ({ status: 201 }), { lease: 1 } as never)
    await expect(unknown).rejects.toThrow(InvalidOptionError)
  })
})
