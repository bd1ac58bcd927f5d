import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import net, { type AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { stepsOfTier } from '../support/tiers/crash-steps.ts'
import { DeliveryLog } from '../support/worlds/delivery-log.ts'
import { useOutboxTarget } from '../support/engines/outbox-target.ts'
import { disconnected, Program } from '../support/worlds/program.ts'
import { useTarget } from '../support/engines/target.ts'
import { send } from '../http/http-under-test.ts'
import type { HttpServerConfig } from './programs/http-server.ts'
import type { Step } from './programs/mortal.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)

const steps: Record<string, Step & { readonly committed: boolean | undefined }> = {
  'before its claim': { statement: 'insert into \\S*inbox', phase: 'before', committed: false },
  'after its claim': { statement: 'insert into \\S*inbox', phase: 'answered', committed: false },
  'before the effect': { point: 'before the effect', committed: false },
  'after the effect': { point: 'after the effect', committed: false },
  'after the response was stored': { statement: 'update \\S*inbox', phase: 'answered', committed: false },
  'before COMMIT': { statement: '^commit', phase: 'before', committed: false },
  'during COMMIT': { statement: '^commit', phase: 'sent', committed: undefined },
  'when COMMIT was answered': { statement: '^commit', phase: 'answered', committed: true },
  'before the first byte of the response': { point: 'before the first byte', committed: true },
  'in the middle of the response': { point: 'in the middle of the response', committed: true },
}

async function freePort(): Promise<number> {
  const server = net.createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}

for (const [when, { committed, ...step }] of stepsOfTier(steps)) {
  test(`H2 H3 H19 a server is killed ${when}: the retry ${committed === true ? 'is a replay' : 'has one effect'}`, async () => {
    const config: HttpServerConfig = {
      ...{ url: outbox.url(), log: new DeliveryLog().file, port: await freePort(), effect: randomUUID() },
      fate: { step: step as Step, signal: 'SIGKILL' },
    }
    const url = `http://127.0.0.1:${config.port}/${config.effect}`
    const first = await Program.started('http-server', config)
    await expect(send(url)).rejects.toThrow()
    expect(await first.ended()).toBe('SIGKILL')
    await disconnected(outbox, 'http-server')
    const before = await target.effects(config.effect)
    if (committed !== undefined) expect(before).toBe(committed ? 1 : 0)
    const second = await Program.started('http-server', { ...config, fate: undefined })
    const retry = await send(url)
    const replay = await send(url)
    expect([retry.status, retry.isReplayed, replay.isReplayed]).toEqual([201, before === 1, true])
    expect(retry.text).toBe(`by ${before === 1 ? first.pid : second.pid} `.repeat(100))
    expect([replay.text, await target.effects(config.effect)]).toEqual([retry.text, 1])
  })
}

const LEASE_MS = 2000

/** How often the other system is called before the kill; undefined where that is open. */
const leasedSteps: Record<string, Step & { readonly calls: number; readonly stored: boolean | undefined }> = {
  'before its lease': { statement: 'insert[^]*dedup_leases', phase: 'before', calls: 0, stored: false },
  'after its lease': {
    statement: 'insert[^]*dedup_leases',
    phase: 'answered',
    calls: 0,
    stored: false,
  },
  'before the call': { point: 'before the effect', calls: 0, stored: false },
  'after the call': { point: 'after the effect', calls: 1, stored: false },
  'while the response is stored': {
    statement: '\\bupdate\\s[^]*dedup_leases',
    phase: 'sent',
    calls: 1,
    stored: undefined,
  },
  'when the response is stored': {
    statement: '\\bupdate\\s[^]*dedup_leases',
    phase: 'answered',
    calls: 1,
    stored: true,
  },
}

for (const [when, { calls, stored, ...step }] of stepsOfTier(leasedSteps)) {
  test(`H23 a server with a lease is killed ${when}: the next request ${stored === true ? 'is a replay' : 'runs after the lease, with the same key for the other system'}`, async () => {
    const config: HttpServerConfig = {
      ...{ url: outbox.url(), log: new DeliveryLog().file, port: await freePort(), effect: randomUUID() },
      fate: { step: step as Step, signal: 'SIGKILL' },
      leaseMs: LEASE_MS,
    }
    const url = `http://127.0.0.1:${config.port}/${config.effect}`
    const first = await Program.started('http-server', config)
    await expect(send(url)).rejects.toThrow()
    expect(await first.ended()).toBe('SIGKILL')
    await disconnected(outbox, 'http-server')
    expect(await target.effects(config.effect)).toBe(calls)
    const second = await Program.started('http-server', { ...config, fate: undefined })
    const deadline = performance.now() + LEASE_MS + 5000
    let retry = await send(url)
    while (retry.status === 409 && performance.now() < deadline) {
      await sleep(100)
      retry = await send(url)
    }
    expect(retry.status).toBe(201)
    if (stored !== undefined) expect(retry.isReplayed).toBe(stored)
    expect(retry.text).toBe(`by ${retry.isReplayed ? first.pid : second.pid} `.repeat(100))
    const all = calls + (retry.isReplayed ? 0 : 1)
    expect(await target.effects(config.effect)).toBe(all)
    const rows = await target.sql('select name from effects where name like ?', [`${config.effect} %`])
    expect([rows.length, new Set(rows.map(({ name }) => String(name))).size]).toEqual([all, 1])
    expect((await send(url)).isReplayed).toBe(true)
  })
}
