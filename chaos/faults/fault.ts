import type { Draw } from '../draw.ts'
import type { Engine } from '../database/engine.ts'
import type { Fleet } from '../driver/fleet.ts'
import type { Recorder } from '../driver/recorder.ts'
import type { ChaosBroker } from '../servers/chaos-broker.ts'
import type { ChaosDatabase } from '../servers/chaos-database.ts'
import type { Mode } from '../workers/worker-protocol.ts'

/** The workers, servers and settings that faults act on. */
export interface Surroundings {
  readonly engine: Engine
  readonly database: ChaosDatabase
  readonly broker: ChaosBroker
  readonly fleet: Fleet
  readonly recorder: Recorder
  readonly leaseMs: number
  /** Fails over and determines what was lost; one failover at a time. */
  readonly failOver: () => Promise<void>
  /** Sets how workers behave until `over` is called; several faults may use it at the same time. */
  readonly behave: (mode: Partial<Mode>) => { over(): void }
  /** Poisonous messages for relays, by id, that must not reach the consumers before they are healed. */
  readonly relayPoison: Set<string>
}

/**
 * A kind of fault. `inject` begins the fault, holds it, and ends it: when it has resolved, nothing is broken,
 * although the workers may still suffer from it. All that varies is drawn from `draw`.
 *
 * @returns a description for the timeline.
 */
export interface Fault {
  readonly about: string
  /** The parts that the fault breaks: while they are broken, no standstill counts. */
  readonly harms: 'nothing' | 'database' | 'broker'
  /** How often the fault is drawn, compared with others. @default 1 */
  readonly weight?: number
  /** Two faults of one group are not injected at the same time. */
  readonly group?: string
  inject(on: Surroundings, draw: Draw): Promise<string>
}
