import type { Step } from '../../crash/programs/mortal.ts'
import type { Target } from '../engines/target.ts'

/** The statements between the steps of a relay, as patterns of their texts. */
export interface RelayStatements {
  /** With the first statement a relay makes itself known; with the second it takes shards. */
  readonly take: string
  readonly renew: string
  readonly read: string
  readonly settle: string
  /** The relay has shards, which every other relay can see. */
  readonly hasTaken: Step
}

export function relayStatementsOf({ engine }: Target): RelayStatements {
  if (engine === 'postgres') {
    const take = 'update \\S+leases as l\\s+set owner = \\$2'
    return {
      take,
      renew: 'update \\S+leases as l\\s+set expires_at = pg_catalog.clock_timestamp',
      read: 'payload_bytes',
      settle: 'delete from \\S+outbox',
      hasTaken: { statement: take, nth: 2, phase: 'answered' },
    }
  }
  return {
    // An engine puts a time limit before a statement, or as a hint behind its first word.
    take: '\\bupdate [^;]*leases\\S*\\s+set (?:crashes = .*, )?owner = (?!null)',
    renew: '\\bupdate [^;]*leases\\S*\\s+set expires_at',
    read: 'as blocked\\s+from',
    settle: '\\bdelete [^;]*o\\s+from \\S+leases',
    // Leases are taken in a transaction of several statements, which this one follows. Before it the server would end a
    // connection that is paused, and the relay would never learn that the leases are its own.
    hasTaken: { statement: '^\\s*set session wait_timeout', nth: 2, phase: 'answered' },
  }
}
