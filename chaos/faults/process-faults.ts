import { setTimeout as pause } from 'node:timers/promises'
import type { Fault, Surroundings } from './fault.ts'
import { beside } from './beside.ts'

export const kill: Fault = {
  about: 'SIGKILL of a worker',
  harms: 'nothing',
  weight: 3,
  group: 'process',
  async inject({ fleet }, draw) {
    const slots = [draw.pick(fleet.drawnSlots), ...beside(fleet, draw)]
    await ready(fleet, slots)
    for (const slot of slots) fleet.process(slot).signal('SIGKILL')
    return `SIGKILL of ${slots.join(' and ')}`
  },
}

export const stopBeyondLease: Fault = {
  about:
    'SIGSTOP of a worker: a relay or a local consumer beyond its lease, or a worker of the queue beyond the visibility timeout',
  harms: 'nothing',
  weight: 3,
  group: 'process',
  async inject({ fleet, leaseMs, database }, draw) {
    const slot = draw.pick([
      ...fleet.slotsOf('relay'),
      ...fleet.slotsOf('relay'),
      ...fleet.slotsOf('queue-worker'),
      ...fleet.drawnSlots,
    ])
    // On a slow network the process is most likely stopped while it waits for an answer, and finds the answer when it wakes up.
    const isSlow = draw.chance(0.5)
    const untilMs = draw.integer(200, 600)
    const ms = Math.round(leaseMs * (1.2 + draw.next()))
    const slots = [slot, ...beside(fleet, draw)]
    await ready(fleet, slots)
    const processes = slots.map((one) => fleet.process(one))
    if (isSlow) database.proxy.latencyMs(80)
    await pause(untilMs)
    for (const process of processes) process.signal('SIGSTOP')
    await pause(ms)
    for (const process of processes) process.signal('SIGCONT')
    await pause(300)
    if (isSlow) database.proxy.latencyMs(0)
    return `SIGSTOP of ${slots.join(' and ')} for ${ms} ms`
  },
}

export const terminate: Fault = {
  about: 'SIGTERM of a worker, which ends by itself and is replaced',
  harms: 'nothing',
  group: 'process',
  async inject({ fleet }, draw) {
    const slots = [draw.pick(fleet.drawnSlots), ...beside(fleet, draw)]
    await ready(fleet, slots)
    const processes = slots.map((slot) => fleet.process(slot))
    for (const process of processes) process.signal('SIGTERM')
    await Promise.race([Promise.all(processes.map(({ ended }) => ended)), pause(12_000)])
    return `SIGTERM of ${slots.join(' and ')}`
  },
}

export const clockJump: Fault = {
  about: 'the wall clock of a process jumps by seconds, hours or years, and back',
  harms: 'nothing',
  group: 'process',
  async inject({ fleet }, draw) {
    const slot = draw.pick([...fleet.slotsOf('relay'), ...fleet.drawnSlots])
    const [seconds, hours] = [1000, 3_600_000]
    const offsetMs = draw.pick([-3 * seconds, 3 * seconds, -hours, hours, -9000 * hours, 9000 * hours])
    const ms = draw.integer(500, 3000)
    const slots = [slot, ...beside(fleet, draw)]
    const processes = slots.map((one) => fleet.process(one))
    for (const process of processes) process.say({ what: 'clock', offsetMs })
    await pause(ms)
    for (const process of processes) process.say({ what: 'clock', offsetMs: 0 })
    return `the clock of ${slots.join(' and ')} off by ${offsetMs / seconds} s`
  },
}

/** A process that was started a moment ago has no work to lose yet. */
async function ready(fleet: Surroundings['fleet'], slots: readonly string[]): Promise<void> {
  const areReady = (): boolean => slots.every((slot) => fleet.process(slot).isReady)
  for (let waited = 0; waited < 5000 && !areReady(); waited += 50) await pause(50)
}
