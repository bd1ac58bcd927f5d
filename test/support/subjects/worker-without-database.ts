import path from 'node:path'
import { WorkerProcess } from '../../../chaos/driver/worker-process.ts'
import type { WorkerKind } from '../../../chaos/workers/worker-protocol.ts'

/** Starts a worker of the chaos run whose database refuses connections. Its files are in `folder`. */
export function workerWithoutDatabase(
  folder: string,
  { kind, slot }: { readonly kind: WorkerKind; readonly slot: string },
  events: ConstructorParameters<typeof WorkerProcess>[3],
): WorkerProcess {
  return new WorkerProcess(
    {
      kind,
      slot,
      incarnation: 1,
      engine: 'postgres',
      databaseUrl: 'postgres://nobody@127.0.0.1:1/none',
      brokerUrl: '',
      seed: 1,
      leaseMs: 1500,
      batchSize: 1,
      publishTimeoutMs: 1000,
      workerPlant: undefined,
      localWorkMs: 0,
      httpFolder: folder,
      killLog: path.join(folder, 'kills.log'),
    },
    path.join(folder, `${slot}.log`),
    undefined,
    events,
  )
}
