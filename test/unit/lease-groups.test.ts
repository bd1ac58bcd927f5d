import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import type { HeldShard } from '../../packages/core/src/leases/held-shard.ts'
import { LeaseKeeper } from '../../packages/core/src/leases/lease-keeper.ts'
import { RELAY_LEASES } from '../../packages/core/src/leases/lease-names.ts'
import { LEASE_MS, Processes, sizes, type Process } from '../support/subjects/lease-processes.ts'
import { MemoryLeaseStore } from '../support/subjects/memory-lease-store.ts'

test('the statements of a round do not grow with the number of consumers', async () => {
  const processes = new Processes()
  const one = processes.start('one')
  const groups = Array.from({ length: 20 }, (_, n) => one.run(`consumer-${n}`))
  await processes.rounds(2)
  expect(new Set(sizes(...groups))).toEqual(new Set([16]))
  one.store.calls.length = 0
  await processes.rounds(1)
  expect(one.store.calls).toEqual(['renew 340', 'sweep local-member/', 'holders local'])
})

test('a slow renewal leaves the rest of the round its time, and a slow rest takes its shards all the same', async () => {
  const processes = new Processes()
  const one = processes.start('one')
  const group = one.run('bookings', 600)
  one.store.beforeRenewal = () => sleep(150)
  one.store.beforeAnswer = () => sleep(60)
  await one.keeper.round()
  expect(sizes(group)).toEqual([16])
  const late = one.run('totals', 600)
  one.store.beforeAnswer = () => sleep(250)
  await one.keeper.round()
  expect(sizes(late)).toEqual([0])
  one.store.calls.length = 0
  await one.keeper.round()
  // The process was introduced; the shards were acquired by a statement that the renewal has not cut off.
  await one.keeper.round()
  await one.keeper.round()
  expect(sizes(group, late)).toEqual([16, 16])
  expect(one.store.calls.filter((call) => call === 'close' || call.startsWith('acquire'))).toEqual([
    'acquire 16',
  ])
  expect(one.failures).toEqual([])
})

test('a rest of a round that does not end is cut off after the length of a lease, and is no outage', async () => {
  const processes = new Processes()
  const one = processes.start('one')
  one.run('bookings', 600)
  one.store.beforeAnswer = () => new Promise(() => undefined)
  await processes.rounds(1)
  expect(one.failures).toEqual([])
  await processes.rounds(1)
  expect(one.failures.map((error) => [(error as Error).name, String(error)])).toEqual([
    ['Error', expect.stringContaining('Sharing the shards')],
  ])
  expect(one.store.calls.at(-1)).toBe('close')
})

test('no shard is tried to acquire that another process holds', async () => {
  const processes = new Processes()
  const [one, two] = [processes.start('one'), processes.start('two')]
  const group = one.run('billing')
  await processes.rounds(1)
  for (const held of group.held) held.beginTurn()
  const other = two.run('billing')
  two.store.calls.length = 0
  await processes.rounds(3)
  expect(sizes(group, other)).toEqual([16, 0])
  // The only name that was acquired is that of the process itself.
  expect(two.store.calls.filter((call) => call.startsWith('acquire'))).toEqual(['acquire 1'])
})

test('each consumer has its own even shares, as processes come and go', async () => {
  const processes = new Processes()
  const [one, two, three] = ['one', 'two', 'three'].map((owner) => processes.start(owner)) as [
    Process,
    Process,
    Process,
  ]
  const billing = [one.run('billing'), two.run('billing')]
  const mailer = [one.run('mailer')]
  await processes.rounds(4)
  expect(sizes(...billing)).toEqual([8, 8])
  expect(sizes(...mailer)).toEqual([16])
  billing.push(three.run('billing'))
  await processes.rounds(4)
  expect(sizes(...billing).toSorted((a, b) => a - b)).toEqual([5, 5, 6])
  await billing[1]!.leave()
  await two.keeper.remove(billing[1]!)
  await processes.rounds(4)
  expect(sizes(...billing)).toEqual([8, 0, 8])
  expect(sizes(...mailer)).toEqual([16])
  expect(one.lost.concat(two.lost, three.lost).every(([, reason]) => reason === 'stopped')).toBe(true)
  expect([...one.failures, ...two.failures, ...three.failures]).toEqual([])
})

test('consumers whose names continue each other do not share their shards', async () => {
  const processes = new Processes()
  const [one, two, three] = [processes.start('one'), processes.start('two'), processes.start('three')]
  const groups = [one.run('a'), two.run('a/b'), three.run('a/00'), three.run('a/b/00')]
  await processes.rounds(4)
  expect(sizes(...groups)).toEqual([16, 16, 16, 16])
  const names = groups.flatMap(({ held }) => held.map(({ lease }) => lease.name))
  expect(new Set(names).size).toBe(64)
})

test('a consumer that leaves hands over its shards at once', async () => {
  const processes = new Processes()
  const [one, two] = [processes.start('one'), processes.start('two')]
  const [first, second] = [one.run('billing'), two.run('billing')]
  await processes.rounds(3)
  const busy = first.held[0]!
  busy.beginTurn()
  await first.leave()
  expect(first.held).toEqual([busy])
  await two.keeper.round()
  expect(sizes(second)).toEqual([15])
  // The last shard follows as soon as its work has ended.
  busy.endTurn()
  await first.rest(busy)
  expect(sizes(first)).toEqual([0])
  await two.keeper.round()
  expect(sizes(second)).toEqual([16])
  expect(second.held.every(({ crashes }) => crashes === 0)).toBe(true)
})

test('the shards of a process that was killed are taken when their leases have expired, and the crash is counted', async () => {
  const processes = new Processes()
  const [one, two] = [processes.start('one'), processes.start('two')]
  const [first, second] = [one.run('billing'), two.run('billing')]
  await processes.rounds(3)
  const lostShards = new Set(first.held.map(({ shard }) => shard))
  processes.kill(one)
  await processes.rounds(LEASE_MS / 1000 + 2)
  expect(sizes(second)).toEqual([16])
  for (const { shard, crashes } of second.held) expect(crashes).toBe(lostShards.has(shard) ? 1 : 0)
  await processes.rounds(LEASE_MS / 1000 + 1)
  const members = [...processes.leases.rows.keys()].filter((name) => name.startsWith('local-member/'))
  expect(members).toEqual(['local-member/billing/two'])
})

test('work that is cut off when a consumer is removed counts as a crash of its shard alone', async () => {
  const processes = new Processes()
  const [one, two] = [processes.start('one'), processes.start('two')]
  const group = one.run('billing')
  await processes.rounds(1)
  const [busy] = group.held as [HeldShard]
  busy.beginBatch()
  await group.leave()
  await one.keeper.remove(group)
  const next = two.run('billing')
  await processes.rounds(1)
  expect(next.held.filter(({ crashes }) => crashes > 0).map(({ shard }) => shard)).toEqual([busy.shard])
})

test('leases that expired under their owner, which takes them again, are no crash', async () => {
  const processes = new Processes()
  const one = processes.start('one')
  const [billing, mailer] = [one.run('billing'), one.run('mailer')]
  await processes.rounds(2)
  processes.leases.now += LEASE_MS
  await processes.rounds(2)
  expect(one.lost.filter(([, reason]) => reason === 'expired').length).toBe(32)
  expect(sizes(billing, mailer)).toEqual([16, 16])
  for (const { crashes, lease } of [...billing.held, ...mailer.held]) {
    expect([crashes, lease.crashes]).toEqual([0, 1])
  }
})

test('a shard that no other process takes is taken beyond the share', async () => {
  const processes = new Processes()
  const [one, two] = [processes.start('one'), processes.start('two')]
  const [first, second] = [one.run('billing'), two.run('billing')]
  await processes.rounds(3)
  const busy = first.held[0]!
  busy.beginTurn()
  // The first process has lost the lease, and does not take it again while its work hangs.
  processes.leases.rows.get(busy.lease.name)!.expiresAt = 0
  await processes.rounds(LEASE_MS / 1000 + 3)
  expect(sizes(first, second)).toEqual([7, 9])
  const extra = second.held.at(-1)!
  expect(extra.shard).toBe(busy.shard)
  // Later it counts, and another one is given away, which the first process can take while its work still hangs.
  await processes.rounds(12 * (LEASE_MS / 1000) + 3)
  expect(sizes(first, second)).toEqual([8, 8])
  expect(second.held).toContain(extra)
  busy.endTurn()
  await first.rest(busy)
  await processes.rounds(12 * (LEASE_MS / 1000) + 3)
  expect(sizes(first, second)).toEqual([8, 8])
})

test('shards whose owner can take none of them are seldom without one, and shared again when it can', async () => {
  const processes = new Processes()
  const [one, two] = [processes.start('one'), processes.start('two')]
  const first = one.run('billing')
  await processes.rounds(2)
  const hanging = first.held
  for (const held of hanging) held.beginTurn()
  for (const { lease } of hanging) processes.leases.rows.get(lease.name)!.expiresAt = 0
  const second = two.run('billing')
  let [unowned, rounds] = [0, 0]
  await processes.rounds(LEASE_MS / 1000 + 3)
  expect(sizes(first, second)).toEqual([0, 16])
  for (; rounds < 100; rounds += 1) {
    await processes.rounds(1)
    unowned += 16 - second.held.length
  }
  // Eight shards for the length of a lease, after every twelve in which they had an owner.
  expect(unowned / (8 * rounds)).toBeLessThan(1 / 8)
  for (const held of hanging) {
    held.endTurn()
    await first.rest(held)
  }
  await processes.rounds(13 * (LEASE_MS / 1000) + 3)
  expect(sizes(first, second)).toEqual([8, 8])
})

test('consumers with leases of different lengths are renewed with their own', async () => {
  const processes = new Processes()
  const one = processes.start('one')
  one.run('billing', 3000)
  one.run('mailer', 30_000)
  await processes.rounds(2)
  const left = (name: string): number => processes.leases.rows.get(name)!.expiresAt - processes.leases.now
  expect([left('local/billing/00'), left('local/mailer/00')]).toEqual([2000, 29_000])
  await one.keeper.round()
  expect(one.keeper.pauseMs).toBe(1000)
  one.run('quick', 600)
  await one.keeper.round()
  processes.leases.now += 50
  expect(one.keeper.pauseMs).toBe(150)
})

test.for([
  ['its own lease', 1],
  ['its shards', 2],
] as const)('what a consumer acquires while it leaves is released: %s', async ([, answer]) => {
  const processes = new Processes()
  const one = processes.start('one')
  const group = one.run('billing')
  let answers = 0
  let leaving: Promise<void> | undefined
  one.store.beforeAnswer = async () => {
    if (++answers === answer) leaving = group.leave().then(() => one.keeper.remove(group))
    await leaving
  }
  await one.keeper.round()
  expect(answers).toBe(answer)
  expect(processes.leases.ownersOf('local')).toEqual([])
  expect(group.held).toEqual([])
})

test('the names of the leases of a relay are those of the releases before', async () => {
  const processes = new Processes()
  const store = new MemoryLeaseStore(processes.leases)
  const failed = (): undefined => undefined
  const keeper = new LeaseKeeper(store, {
    owner: 'me',
    names: RELAY_LEASES,
    clock: processes.clock,
    failed,
  })
  keeper.add({ path: '', leaseMs: LEASE_MS, events: { acquired: () => undefined, lost: () => undefined } })
  await keeper.round()
  expect([...processes.leases.rows.keys()].sort()).toEqual([
    ...Array.from({ length: 16 }, (_, shard) => `outbox/${String(shard).padStart(2, '0')}`),
    'relay/me',
  ])
  store.calls.length = 0
  processes.leases.now += 1000
  await keeper.round()
  expect(store.calls).toEqual(['renew 17', 'sweep relay/', 'holders relay/', 'holders outbox/'])
})
