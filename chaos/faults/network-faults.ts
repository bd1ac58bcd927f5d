import { setTimeout as pause } from 'node:timers/promises'
import type { Fault } from './fault.ts'

/** Bytes that a session exchanges within a few statements. */
const MOST_BYTES = 20_000

export const cutAfterBytes: Fault = {
  about: 'all connections to the database or the broker are cut, each after a random number of bytes',
  harms: 'nothing',
  weight: 2,
  async inject({ database, broker }, draw) {
    const [name, proxy] = draw.pick([
      ['the database', database.proxy] as const,
      ['the broker', broker.proxy] as const,
    ])
    const times = draw.integer(1, 4)
    for (let n = 0; n < times; n += 1) {
      proxy.cutAfterBytes(draw.integer(0, MOST_BYTES))
      await pause(draw.integer(50, 500))
    }
    // A connection that has not carried so many bytes yet is cut now; otherwise it would break in a later quiet phase.
    proxy.cutAll()
    return `connections to ${name} cut, ${times} times`
  },
}

export const silentDirection: Fault = {
  about: 'one direction of all connections to the database is silent',
  harms: 'database',
  group: 'database-network',
  async inject({ database }, draw) {
    const direction = draw.pick(['toServer', 'toClient', 'both'] as const)
    const ms = draw.integer(300, 5000)
    database.proxy.silence(direction, true)
    await pause(ms)
    database.proxy.silence(direction, false)
    if (draw.chance(0.5)) database.proxy.cutAll()
    return `silence ${direction} for ${ms} ms`
  },
}

export const latency: Fault = {
  about: 'every round trip to the database takes longer',
  harms: 'database',
  group: 'database-network',
  async inject({ database }, draw) {
    const delayMs = draw.integer(5, 150)
    const ms = draw.integer(500, 4000)
    database.proxy.latencyMs(delayMs)
    await pause(ms)
    database.proxy.latencyMs(0)
    return `latency of ${delayMs} ms for ${ms} ms`
  },
}

export const networkHalt: Fault = {
  about: 'the network to the database stands still, or refuses connections',
  harms: 'database',
  group: 'database-network',
  async inject({ database: { proxy } }, draw) {
    const ms = draw.integer(300, 5000)
    const refuses = draw.chance(0.3)
    if (refuses) {
      proxy.refuse(true)
      proxy.cutAll()
    } else proxy.halt(true)
    await pause(ms)
    if (refuses) proxy.refuse(false)
    else proxy.halt(false)
    return `${refuses ? 'connections refused' : 'full stop'} for ${ms} ms`
  },
}
