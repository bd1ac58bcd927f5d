export type {
  Driver,
  Guard,
  HandleAdapter,
  Isolation,
  ListeningConnection,
  Observation,
  Opening,
  OwnConnection,
  RootAdapter,
  Seen,
  SqlResult,
  TransactionState,
} from './handle-adapter.ts'
export { listeningOn } from './pg.ts'
export { recogniseHandle, recogniseRoot } from './recognise.ts'
