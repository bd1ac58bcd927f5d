import { setTimeout as pause } from 'node:timers/promises'
import type { Fault, Surroundings } from './fault.ts'

export const kill: Fault = {
  about: 'SIGKILL of a worker',
  harms: 'nothing',
  weight: 3,
  group: 'process',
  async inject({ fleet }, draw) {
    const slot = draw.pick(fleet.slots)
    await ready(fleet, slot)
    fleet.process(slot).signal('SIGKILL')
    return `SIGKILL of ${slot}`
  },
}

export const stopBeyondLease: Fault = {
  about:
    'SIGSTOP of a worker: a relay beyond its lease, or a worker of the queue beyond the visibility timeout',
  harms: 'nothing',
  weight: 3,
  group: 'process',
  async inject({ fleet, leaseMs, database }, draw) {
    const slot = draw.pick([
      ...fleet.slotsOf('relay'),
      ...fleet.slotsOf('relay'),
      ...fleet.slotsOf('queue-worker'),
      ...fleet.slots,
    ])
    await ready(fleet, slot)
    const process = fleet.process(slot)
    // On a slow network the process is most likely stopped while it waits for an answer, and finds the answer when it wakes up.
    const isSlow = draw.chance(0.5)
    if (isSlow) database.proxy.latencyMs(80)
    await pause(draw.integer(200, 600))
    process.signal('SIGSTOP')
    const ms = Math.round(leaseMs * (1.2 + draw.next()))
    await pause(ms)
    process.signal('SIGCONT')
    await pause(300)
    if (isSlow) database.proxy.latencyMs(0)
    return `SIGSTOP of ${slot} for ${ms} ms`
  },
}

export const terminate: Fault = {
  about: 'SIGTERM of a worker, which ends by itself and is replaced',
  harms: 'nothing',
  group: 'process',
  async inject({ fleet }, draw) {
    const slot = draw.pick(fleet.slots)
    await ready(fleet, slot)
    const process = fleet.process(slot)
    process.signal('SIGTERM')
    await Promise.race([process.ended, pause(12_000)])
    return `SIGTERM of ${slot}`
  },
}

export const clockJump: Fault = {
  about: 'the wall clock of a process jumps by seconds, hours or years, and back',
  harms: 'nothing',
  group: 'process',
  async inject({ fleet }, draw) {
    const slot = draw.pick([...fleet.slotsOf('relay'), ...fleet.slots])
    const [seconds, hours] = [1000, 3_600_000]
    const offsetMs = draw.pick([-3 * seconds, 3 * seconds, -hours, hours, -9000 * hours, 9000 * hours])
    const process = fleet.process(slot)
    process.say({ what: 'clock', offsetMs })
    await pause(draw.integer(500, 3000))
    process.say({ what: 'clock', offsetMs: 0 })
    return `the clock of ${slot} off by ${offsetMs / seconds} s`
  },
}

/** A process that was started a moment ago has no work to lose yet. */
async function ready(fleet: Surroundings['fleet'], slot: string): Promise<void> {
  for (let waited = 0; waited < 5000 && !fleet.process(slot).isReady; waited += 50) await pause(50)
}
