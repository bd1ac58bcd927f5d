import { Draw } from '../draw.ts'

const LONGEST_STRETCH = 4

/** What users choose for a relay, and this run chooses by its seed. */
export interface RelaySettings {
  readonly leaseMs: number
  readonly batchSize: number
  readonly publishTimeoutMs: number
}

/** @param stretch how overloaded the machine is: there a short lease would run out under a relay that is well. */
export function relaySettings(seed: number, set: Partial<RelaySettings> = {}, stretch = 1): RelaySettings {
  const draw = new Draw(`${seed} relay settings`)
  const drawn = {
    leaseMs: draw.pick([1500, 2000, 3000]),
    batchSize: draw.pick([5, 20, 50]),
    publishTimeoutMs: draw.pick([2000, 15_000]),
    ...set,
  }
  return { ...drawn, leaseMs: drawn.leaseMs * Math.min(LONGEST_STRETCH, Math.round(stretch)) }
}
