import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import type { Lease, LeaseStore, RelayStore } from '@txbox/core/ports'
import { connectedPortsOf } from '@txbox/core/internal'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import { onEachRoot, useRoot, useTarget } from '../../support/engines/target.ts'
import { UnreliableNetwork } from '../../support/worlds/unreliable-network.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)

onEachRoot(target, (kind) => {
  const root = useRoot(target, kind)

  function leaseStore(): LeaseStore {
    const leases = connectedPortsOf('test', root.database).leases()
    onTestFinished(() => leases.close())
    return leases
  }

  function relayStore(): RelayStore {
    return connectedPortsOf('test', root.database).relay({ statementTimeoutMs: 10_000 })
  }

  async function take(leases: LeaseStore, owner: string): Promise<Lease> {
    const [lease] = await leases.acquire(['outbox/07'], { owner, ttlMs: 60_000, limit: 1 })
    return lease!
  }

  test('O9 each owner that lets a lease expire counts as a crash, until an owner reports that its messages are settled', async () => {
    const leases = leaseStore()
    const first = await take(leases, 'a')
    expect([first.crashes, first.inFlight]).toEqual([0, undefined])
    expect(await relayStore().note(first, '{"seq":"12 é"}')).toBe(true)
    await outbox.expireLeases()
    const second = await take(leases, 'b')
    expect([second.crashes, second.inFlight]).toEqual([1, '{"seq":"12 é"}'])
    await outbox.expireLeases()
    // A new acquisition by the same owner is a new term, too.
    const third = await take(leases, 'b')
    expect([third.crashes, third.inFlight]).toEqual([2, '{"seq":"12 é"}'])
    await relayStore().survived(third)
    await outbox.expireLeases()
    const fourth = await take(leases, 'c')
    expect([fourth.crashes, fourth.inFlight]).toEqual([1, undefined])
  })

  test('O9 a released lease keeps its count of crashes, and its messages in flight only if their calls were cut off', async () => {
    const leases = leaseStore()
    await take(leases, 'a')
    await outbox.expireLeases()
    const second = await take(leases, 'b')
    await relayStore().note(second, 'two')
    await leases.release([second], new Set([second]))
    const third = await take(leases, 'c')
    expect([third.crashes, third.inFlight]).toEqual([2, 'two'])
    await leases.release([third])
    const fourth = await take(leases, 'd')
    expect([fourth.crashes, fourth.inFlight]).toEqual([2, undefined])
    await relayStore().note(fourth, 'four')
    expect(await relayStore().note(fourth, undefined)).toBe(true)
    await outbox.expireLeases()
    expect((await take(leases, 'e')).inFlight).toBeUndefined()
  })

  test('O9 of several released leases, only those whose calls were cut off count a crash', async () => {
    const leases = leaseStore()
    const names = ['outbox/01', 'outbox/02', 'outbox/03']
    const request = { owner: 'a', ttlMs: 60_000, limit: 3 }
    const taken = await leases.acquire(names, request)
    for (const lease of taken) await relayStore().note(lease, lease.name)
    const cutOff = taken.find(({ name }) => name === 'outbox/02')!
    await leases.release(taken, new Set([cutOff]))
    const again = await leases.acquire(names, request)
    expect(
      again
        .toSorted((a, b) => (a.name < b.name ? -1 : 1))
        .map(({ name, crashes, inFlight }) => [name, crashes, inFlight]),
    ).toEqual([
      ['outbox/01', 0, undefined],
      ['outbox/02', 1, 'outbox/02'],
      ['outbox/03', 0, undefined],
    ])
  })

  test('O7 a relay that has lost a lease records nothing in it', async () => {
    const leases = leaseStore()
    const old = await take(leases, 'a')
    await outbox.expireLeases()
    expect(await relayStore().note(old, 'late')).toBe(false)
    const now = await take(leases, 'b')
    expect(await relayStore().note(now, 'mine')).toBe(true)
    // The same call again changes nothing, and the lease is still held.
    expect(await relayStore().note(now, 'mine')).toBe(true)
    expect(await relayStore().note(old, 'late')).toBe(false)
    await relayStore().survived(old)
    await leases.release([old], new Set([old]))
    await outbox.expireLeases()
    const next = await take(leases, 'c')
    expect([next.crashes, next.inFlight]).toEqual([2, 'mine'])
  })

  test('O10 when the other end of the connection is gone, close rejects all calls that are pending, and later calls use another', async () => {
    const network = await UnreliableNetwork.to(target.address())
    const remote = target.open(kind, { through: network })
    const leases = connectedPortsOf('test', remote.database).leases()
    onTestFinished(async () => {
      await leases.close()
      await network.close()
      await remote.close()
    })
    const lease = await take(leases, 'a')
    network.abandon()
    const pending = [leases.release([lease]), leases.holders('outbox/')]
    const ended = Promise.allSettled(pending).then((results) => results.map(({ status }) => status))
    await sleep(50)
    await leases.close()
    expect(await Promise.race([ended, sleep(1000, 'still pending')])).toEqual(['rejected', 'rejected'])
    expect(await leases.holders('outbox/')).toEqual([{ name: 'outbox/07', owner: 'a' }])
  })

  test('O7 a sweep removes leases that have long had no owner, and never waits', async () => {
    const leases = leaseStore()
    const request = { ttlMs: 60_000, limit: 1 }
    const [gone] = await leases.acquire(['relay/gone'], { ...request, owner: 'gone' })
    await leases.acquire(['relay/there'], { ...request, owner: 'there' })
    await leases.release([gone!])
    const other = await root.begin()
    const table = target.engine === 'postgres' ? 'txbox.leases' : 'txbox_leases'
    await other.exec(`select * from ${table} where name = 'relay/there' for update`)
    await leases.sweep('relay/', 0)
    await other.rollback()
    expect(await leases.holders('relay/')).toEqual([{ name: 'relay/there', owner: 'there' }])
    const rows = await outbox.sql(`select name from ${table}`)
    expect(rows.map(({ name }) => String(name))).toEqual(['relay/there'])
  })
})
