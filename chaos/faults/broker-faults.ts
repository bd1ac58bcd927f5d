import { setTimeout as pause } from 'node:timers/promises'
import { RECORD_QUEUE } from '../workers/worker-protocol.ts'
import type { Fault } from './fault.ts'

/** Refusals count as attempts, so the fault is shorter than the attempts of a relay take. */
const LONGEST_REFUSAL_MS = 2500

export const brokerRestart: Fault = {
  about: 'the broker is killed and started again',
  harms: 'broker',
  group: 'broker',
  weight: 0.5,
  async inject({ broker }) {
    await broker.restart()
    return 'the broker restarted'
  },
}

export const brokerNetwork: Fault = {
  about: 'the network to the broker is silent, slow, stopped, or refuses connections',
  harms: 'broker',
  group: 'broker',
  weight: 2,
  async inject({ broker: { proxy } }, draw) {
    const kind = draw.pick(['toServer', 'toClient', 'both', 'halt', 'refuse', 'latency'] as const)
    const ms = draw.integer(300, 5000)
    const set = (on: boolean): void => {
      if (kind === 'halt') proxy.halt(on)
      else if (kind === 'refuse') proxy.refuse(on)
      else if (kind === 'latency') proxy.latencyMs(on ? draw.integer(5, 200) : 0)
      else proxy.silence(kind, on)
    }
    set(true)
    if (kind === 'refuse') proxy.cutAll()
    await pause(ms)
    if (draw.chance(0.5)) proxy.cutAll()
    set(false)
    return `the network to the broker: ${kind} for ${ms} ms`
  },
}

export const queueFull: Fault = {
  about: 'the queue is full: the broker refuses messages',
  harms: 'broker',
  group: 'broker',
  async inject({ broker }, draw) {
    const ms = draw.integer(200, LONGEST_REFUSAL_MS)
    await broker.limitQueue(RECORD_QUEUE, true)
    await pause(ms)
    await broker.limitQueue(RECORD_QUEUE, false)
    return `the queue full for ${ms} ms`
  },
}

export const bindingRemoved: Fault = {
  about: 'the binding of the queue is gone: messages cannot be routed',
  harms: 'broker',
  group: 'broker',
  async inject({ broker }, draw) {
    const ms = draw.integer(200, LONGEST_REFUSAL_MS)
    await broker.removeBindings(true)
    await pause(ms)
    await broker.removeBindings(false)
    return `the binding removed for ${ms} ms`
  },
}

/** Refusals while a relay sleeps: its verdicts come when other relays own the shards. */
export const refusedInFlight: Fault = {
  about: 'a relay is stopped beyond its lease while the broker refuses what it has in flight',
  harms: 'broker',
  group: 'broker',
  async inject({ fleet, broker, leaseMs }, draw) {
    const slot = draw.pick(fleet.slotsOf('relay'))
    const process = fleet.process(slot)
    // Calls begin and get no answer; then the relay sleeps, and gets all answers at once when it wakes up.
    broker.proxy.silence('toClient', true)
    await pause(draw.integer(300, 1500))
    process.signal('SIGSTOP')
    broker.proxy.silence('toClient', false)
    const ms = Math.round(leaseMs * (1.2 + draw.next() / 2))
    await pause(ms)
    process.signal('SIGCONT')
    return `${slot} stopped for ${ms} ms with calls in flight`
  },
}
