import type { CheckName } from '../check/violation.ts'
import type { Engine } from '../database/engine.ts'
import type { RelaySettings } from '../driver/relay-settings.ts'
import type { FaultName } from '../faults/fault-names.ts'

/** A textual change of a built file. `find` must occur exactly once; otherwise the plant fails with an error. */
export interface Replacement {
  /** The package, and the name of the built file in whichever folder of `dist` it is. */
  readonly package:
    | 'relay'
    | 'outbox'
    | 'consumer'
    | 'idempotency-key'
    | 'core'
    | 'sql'
    | 'postgres'
    | 'mysql'
  readonly file: string
  readonly find: string
  readonly replace: string
}

/** A known bug, which the run must find. */
export interface Plant {
  readonly name: string
  /** The effect of the bug. */
  readonly about: string
  /** Only on these databases. @default all */
  readonly engines?: readonly Engine[]
  readonly replacements: readonly Replacement[]
  /** A bug in the worker itself: how a program may use the packages wrongly. */
  readonly worker?: 'claim-in-another-transaction'
  /** The checks that show this bug. Another violation does not count as having found it. */
  readonly checks: readonly CheckName[]
  /** The kinds of faults that reveal the bug. */
  readonly faults: readonly FaultName[]
  /** Settings of the relays that reveal the bug; other settings are drawn from the seed. */
  readonly settings?: Partial<RelaySettings>
  /** How long each handler of a local consumer takes at least, in ms, so that messages wait for a handler. @default 0 */
  readonly localWorkMs?: number
}
