import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import type { SystemUser } from './server-user.ts'

/**
 * The process that starts the server holds the other end of a pipe. When the pipe ends, for any reason, the server
 * ends.
 */
const KEEPER =
  'log=$1 signal=$2; shift 2; "$@" >> "$log" 2>&1 & pid=$!; echo $pid; cat > /dev/null; kill -$signal $pid; wait $pid'

export interface KeptProcessOptions {
  /** The program and its arguments. A script must replace itself by the server (`exec`). */
  readonly command: readonly string[]
  /** The folder in which the server runs. */
  readonly folder: string
  /** The file that receives the output of the server. */
  readonly log: string
  /** The signal that ends the server at once, on `stop` and when this process is gone. */
  readonly endSignal: 'SIGKILL' | 'SIGQUIT'
  /** The user who runs the server. @default the user of this process */
  readonly user?: SystemUser | undefined
  /** @default the environment of this process */
  readonly environment?: NodeJS.ProcessEnv
}

/**
 * A server that does not outlive this process, even if this process dies by SIGKILL. Ctrl-C in a terminal does not
 * reach the server: this process decides when the server ends.
 */
export class KeptProcess {
  /** The process id of the server itself. */
  readonly pid: number
  readonly #keeper: ChildProcess
  readonly #ended: Promise<unknown>
  readonly #log: string

  private constructor(keeper: ChildProcess, ended: Promise<unknown>, pid: number, log: string) {
    this.#keeper = keeper
    this.#ended = ended
    this.pid = pid
    this.#log = log
  }

  static async start(options: KeptProcessOptions): Promise<KeptProcess> {
    const { command, folder, log, user } = options
    const keeper = spawn('sh', ['-c', KEEPER, 'sh', log, options.endSignal.slice(3), ...command], {
      ...user,
      cwd: folder,
      env: options.environment ?? process.env,
      stdio: ['pipe', 'pipe', 'ignore'],
      detached: true,
    })
    const ended = once(keeper, 'close')
    const [line] = (await once(createInterface(keeper.stdout), 'line')) as [string]
    return new KeptProcess(keeper, ended, Number(line), log)
  }

  /** Ends the server at once. Resolves when the server is gone. */
  async stop(): Promise<void> {
    this.#keeper.stdin?.end()
    await this.#ended
  }

  /** The last lines that the server has printed. */
  get lastWords(): string {
    return existsSync(this.#log) ? readFileSync(this.#log, 'utf8').slice(-1500) : ''
  }
}
