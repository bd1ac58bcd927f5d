import { Draw } from '../draw.ts'

const LONGEST_STRETCH = 4

/** The options of a relay that a user chooses; a run draws them from its seed. */
export interface RelaySettings {
  readonly leaseMs: number
  readonly batchSize: number
  readonly publishTimeoutMs: number
}

/** @param stretch how overloaded the machine is: on an overloaded machine a healthy relay would lose a short lease. */
export function relaySettings(seed: number, set: Partial<RelaySettings> = {}, stretch = 1): RelaySettings {
  const draw = new Draw(`${seed} relay settings`)
  const leaseMs = draw.pick([1500, 2000, 3000]) * Math.min(LONGEST_STRETCH, Math.round(stretch))
  return {
    leaseMs,
    batchSize: draw.pick([5, 20, 50]),
    publishTimeoutMs: draw.pick([2000, 15_000]),
    ...set,
  }
}
