import type { Violation } from '../check/violation.ts'
import type { Engine } from '../database/engine.ts'
import type { FaultName } from '../faults/fault-names.ts'
import type { Plant } from '../plants/plant.ts'
import type { Fleet } from './fleet.ts'
import type { HttpLog } from './http-log.ts'
import type { Losses } from './losses.ts'
import type { Modes } from './modes.ts'
import type { OnlineChecks } from './online-checks.ts'
import type { Recorder } from './recorder.ts'
import type { RelaySettings } from './relay-settings.ts'
import type { Stand } from './stand.ts'
import type { StandstillWatch } from './standstill-watch.ts'
import type { Timeline, TimelineEvent } from './timeline.ts'

export interface RunOptions {
  readonly database: Engine
  readonly minutes: number
  readonly seed: number
  readonly faults: readonly FaultName[]
  /** Kinds that are left out; all other faults stay the same. */
  readonly without: ReadonlySet<FaultName>
  readonly plant: Plant | undefined
  readonly keep: boolean
  readonly onEvent: (event: TimelineEvent) => void
  readonly signal: AbortSignal
}

/** The parts of a run that its end needs. */
export interface RunParts {
  readonly options: RunOptions
  readonly stand: Stand
  readonly settings: RelaySettings
  readonly killLog: string
  readonly fleet: Fleet
  readonly recorder: Recorder
  readonly httpLog: HttpLog
  /** The log of the provider of payments. */
  readonly chargeLog: string
  readonly losses: Losses
  readonly modes: Modes
  readonly online: OnlineChecks
  readonly watch: StandstillWatch
  readonly timeline: Timeline
  readonly relayPoison: Set<string>
  /** The standstills that were found during the run. */
  readonly standstills: Violation[]
  /** The largest factor by which time limits were extended because the machine was overloaded. */
  readonly maxStretch: number
}

/** Without a plant every violation counts; with a plant only the violations that its bug causes. */
export function showsPlant(plant: Plant | undefined, { check }: Violation): boolean {
  return plant === undefined || plant.checks.includes(check)
}
