import { Draw } from '../draw.ts'

/** What users choose for a relay, and this run chooses by its seed. */
export interface RelaySettings {
  readonly leaseMs: number
  readonly batchSize: number
  readonly publishTimeoutMs: number
}

export function relaySettings(seed: number, set: Partial<RelaySettings> = {}): RelaySettings {
  const draw = new Draw(`${seed} relay settings`)
  return {
    leaseMs: draw.pick([1500, 2000, 3000]),
    batchSize: draw.pick([5, 20, 50]),
    publishTimeoutMs: draw.pick([2000, 15_000]),
    ...set,
  }
}
