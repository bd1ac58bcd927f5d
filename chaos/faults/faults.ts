import { bindingRemoved, brokerNetwork, brokerRestart, queueFull, refusedInFlight } from './broker-faults.ts'
import {
  backendsTerminated,
  connectionLimit,
  databaseRestart,
  failover,
  failoverInFlight,
  lockedTable,
  longTransaction,
  settlementDelayed,
  tableRewritten,
} from './database-faults.ts'
import type { FaultName } from './fault-names.ts'
import type { Fault } from './fault.ts'
import {
  deadlocks,
  deliveriesTwisted,
  lateCommits,
  poisonConsumer,
  poisonRelay,
  slowMessages,
} from './message-faults.ts'
import { cutAfterBytes, latency, networkHalt, silentDirection } from './network-faults.ts'
import { clockJump, kill, stopBeyondLease, terminate } from './process-faults.ts'

export const FAULTS: Readonly<Record<FaultName, Fault>> = {
  kill,
  'stop-beyond-lease': stopBeyondLease,
  terminate,
  'clock-jump': clockJump,
  'cut-after-bytes': cutAfterBytes,
  'silent-direction': silentDirection,
  latency,
  'network-halt': networkHalt,
  'backends-terminated': backendsTerminated,
  'database-restart': databaseRestart,
  failover,
  'failover-in-flight': failoverInFlight,
  'broker-restart': brokerRestart,
  'broker-network': brokerNetwork,
  'queue-full': queueFull,
  'binding-removed': bindingRemoved,
  'long-transaction': longTransaction,
  'locked-table': lockedTable,
  'table-rewritten': tableRewritten,
  'connection-limit': connectionLimit,
  deadlocks,
  'deliveries-twisted': deliveriesTwisted,
  'poison-consumer': poisonConsumer,
  'poison-relay': poisonRelay,
  'slow-messages': slowMessages,
  'late-commits': lateCommits,
  'refused-in-flight': refusedInFlight,
  'settlement-delayed': settlementDelayed,
}
