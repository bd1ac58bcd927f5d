import { mkdtempSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { expect, test } from 'vitest'
import { workerWithoutDatabase } from '../support/subjects/worker-without-database.ts'

test('a process that was started a moment ago ends by itself when it is asked to end', async () => {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'txbox-worker-'))
  try {
    const worker = workerWithoutDatabase(
      folder,
      { kind: 'producer', slot: 'producer-1' },
      { ready: () => undefined, report: () => undefined, exit: () => undefined },
    )
    expect(await worker.stop(30_000)).toBe(true)
  } finally {
    rmSync(folder, { recursive: true })
  }
}, 60_000)
