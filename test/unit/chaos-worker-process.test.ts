import { mkdtempSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { expect, test } from 'vitest'
import { WorkerProcess } from '../../chaos/driver/worker-process.ts'

test('a process that was started a moment ago ends by itself when it is asked to end', async () => {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'txbox-worker-'))
  try {
    const worker = new WorkerProcess(
      {
        kind: 'producer',
        slot: 'producer-1',
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
      path.join(folder, 'producer-1.log'),
      undefined,
      { ready: () => undefined, report: () => undefined, exit: () => undefined },
    )
    expect(await worker.stop(30_000)).toBe(true)
  } finally {
    rmSync(folder, { recursive: true })
  }
}, 60_000)
