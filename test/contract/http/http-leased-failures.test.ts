import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { LeaseLostError, RequestTimeoutError, type LeasedWork } from '@txbox/idempotency-key'
import { onEachRoot, useRoot, useTarget } from '../../support/engines/target.ts'
import {
  IdempotencyUnderTest,
  isReplayed,
  textOf,
  withKey,
} from '../../support/subjects/idempotency-under-test.ts'
import { Gate } from '../../support/worlds/broker.ts'
import { Proxy } from '../../support/worlds/proxy.ts'
import { until } from '../../support/worlds/until.ts'

const target = useTarget()
const REQUESTS = 10
onEachRoot(target, (kind) => {
  const root = useRoot(target, kind, { max: REQUESTS })
  const pair = (options: ConstructorParameters<typeof IdempotencyUnderTest>[2] = {}) => {
    const subject = new IdempotencyUnderTest(target, root, options)
    return [subject, new IdempotencyUnderTest(target, root, { ...options, name: subject.name })] as const
  }

  test('H22 H24 who lost the lease is told by the signal, answers 503 and stores nothing', async () => {
    const [subject, other] = pair()
    const gate = new Gate()
    let signal: AbortSignal | undefined
    const first = subject.handleLeased(
      {},
      async (about) => {
        signal = about.signal
        await gate.pass()
        return { status: 201, body: 'too late' }
      },
      { leaseMs: 1000 },
    )
    await gate.reached()
    await subject.expireLeases()
    const second = await other.handleLeased()
    expect([second.status, textOf(second)]).toEqual([201, '{"charge":1}'])
    const answer = await first
    expect([answer.status, answer.headers?.['retry-after']]).toEqual([503, '1'])
    expect(signal?.reason).toBeInstanceOf(LeaseLostError)
    expect(subject.errors).toEqual([signal?.reason])
    gate.open()
    await sleep(50)
    expect(textOf(await subject.handleLeased())).toBe('{"charge":1}')
  })

  test('H24 a handler that ends after its lease has passed stores nothing, also if nobody has taken the lease', async () => {
    const subject = new IdempotencyUnderTest(target, root)
    const late: LeasedWork = async (about) => {
      await subject.expireLeases()
      return subject.charge(about)
    }
    expect((await subject.handleLeased({}, late)).status).toBe(503)
    expect(subject.errors).toEqual([expect.any(LeaseLostError)])
    const next = await subject.handleLeased()
    expect([next.status, textOf(next)]).toEqual([201, '{"charge":2}'])
    expect(new Set(subject.calledWith).size).toBe(1)
  })

  test('H25 a throw releases the lease at once: the error reaches the caller, and the next request runs with the same key', async () => {
    const [subject, other] = pair()
    const refusal = new Error('the card was declined')
    const failing = subject.handleLeased({}, async (about) => {
      await subject.charge(about)
      throw refusal
    })
    await expect(failing).rejects.toBe(refusal)
    expect((await other.handleLeased()).status).toBe(201)
    const keys = [...subject.calledWith, ...other.calledWith]
    expect([keys.length, new Set(keys).size]).toEqual([2, 1])
    expect(keys[0]).toMatch(/^[0-9a-f]{64}$/)
    expect([...subject.errors, ...other.errors]).toEqual([])
  })

  test('H13 at timeoutMs the signal is aborted, the answer is 503, and the next request runs at once; a late response changes nothing', async () => {
    const subject = new IdempotencyUnderTest(target, root, { timeoutMs: 300 })
    const gate = new Gate()
    let signal: AbortSignal | undefined
    const hanging: LeasedWork = async (about) => {
      signal = about.signal
      await gate.pass()
      return { status: 201, body: 'too late' }
    }
    expect((await subject.handleLeased({}, hanging)).status).toBe(503)
    expect(signal?.reason).toBeInstanceOf(RequestTimeoutError)
    expect(subject.errors).toEqual([signal?.reason])
    const next = subject.handleLeased()
    gate.open()
    expect(textOf(await next)).toBe('{"charge":1}')
    await sleep(50)
    expect(textOf(await subject.handleLeased())).toBe('{"charge":1}')
  })

  test('H19 lost answers of the database: the response is stored once, or the next request runs soon', async () => {
    const between = await Proxy.to(target.address())
    onTestFinished(() => between.close())
    const far = target.open(kind, { through: between })
    onTestFinished(() => far.close())
    await far.ready?.()
    const subject = new IdempotencyUnderTest(target, far)
    await subject.handleLeased(withKey('warm'))
    for (const cut of ['cutBefore', 'cutAfter'] as const) {
      between[cut](/\bupdate\s[^]*dedup_leases/i)
      const response = await subject.handleLeased(withKey(`complete-${cut}`))
      expect([response.status, isReplayed(response)]).toEqual([201, false])
      expect(isReplayed(await subject.handleLeased(withKey(`complete-${cut}`)))).toBe(true)
      between[cut](/insert[^]*dedup_leases/i)
      expect((await subject.handleLeased(withKey(`begin-${cut}`))).status).toBe(503)
      await until(
        async () => (await subject.handleLeased(withKey(`begin-${cut}`))).status === 201,
        () => 'the lease is released, and the next request runs',
      )
    }
    expect(subject.calledWith.length).toBe(5)
    const outage = between.refuse()
    const during = await subject.handleLeased(withKey('outage'))
    expect([during.status, during.headers?.['retry-after']]).toEqual([503, '1'])
    outage.over()
    expect(subject.calledWith.length).toBe(5)
  })
})
