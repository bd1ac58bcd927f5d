import { fork } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'
import type { KeptDatabases } from './database-keeper.ts'
import { DATABASE_TITLES, type DatabaseKind } from './database-server.ts'

/** Databases for one run of the demo. `remove` resolves when all of them are removed. */
export async function openDatabases(
  kind: DatabaseKind,
): Promise<KeptDatabases & { remove: () => Promise<void> }> {
  const keeper = fork(path.join(import.meta.dirname, 'database-keeper.ts'), [kind], {
    stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    // A separate process group: Ctrl-C ends only the demo, and the databases outlive the services.
    detached: true,
  })
  let complaint = ''
  keeper.stderr?.on('data', (chunk: Buffer) => (complaint += chunk.toString()))
  const ended = once(keeper, 'exit')
  const kept = await new Promise<KeptDatabases>((resolve, reject) => {
    keeper.once('message', (message) => resolve(message as KeptDatabases))
    keeper.once('error', reject)
    keeper.once('exit', () => reject(new Error(explain(kind, complaint.trim()))))
  })
  return {
    ...kept,
    remove: async () => {
      if (keeper.connected) keeper.disconnect()
      await ended
    },
  }
}

function explain(kind: DatabaseKind, complaint: string): string {
  const said = complaint.replace(/^(\w*[eE]rror: )+/, '')
  const title = DATABASE_TITLES[kind]
  return process.env['DATABASE_URL'] === undefined
    ? `${title} could not be started: ${said}. Set DATABASE_URL to use one that runs.`
    : `The ${title} that DATABASE_URL names cannot be used: ${said}.`
}
