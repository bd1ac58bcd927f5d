export type {
  CheckedSnapshot,
  ConnectionMonitor,
  Engine,
  HandleAdapter,
  Isolation,
  ListeningConnection,
  Opening,
  OwnConnection,
  RootAdapter,
  Snapshot,
  SqlResult,
  TransactionState,
} from './handle-adapter.ts'
export { listeningOn } from './drivers/pg.ts'
export { recogniseHandle, recogniseRoot } from './recognise.ts'
export { PROBE, savepointStatements } from './savepoint-statements.ts'
