import { fork, type ChildProcess } from 'node:child_process'
import { appendFileSync } from 'node:fs'
import path from 'node:path'
import type { FromWorker, ToWorker, WorkerConfig, WorkerReport } from '../workers/worker-protocol.ts'

const WORKERS = path.join(import.meta.dirname, '..', 'workers')

export interface ProcessEvents {
  readonly ready: (process: WorkerProcess) => void
  readonly report: (process: WorkerProcess, report: WorkerReport) => void
  readonly exit: (process: WorkerProcess) => void
}

/** One process of a worker, from its start to its end. */
export class WorkerProcess {
  readonly config: WorkerConfig
  readonly ended: Promise<number | NodeJS.Signals>
  /** The exit code, or the signal that ended the process. */
  end: number | NodeJS.Signals | undefined
  isReady = false
  readonly #child: ChildProcess
  readonly #ready = Promise.withResolvers<void>()
  #isStopped = false

  /** @param outputFile receives all that the process writes to its standard output and error. */
  constructor(
    config: WorkerConfig,
    outputFile: string,
    plantedPackages: string | undefined,
    events: ProcessEvents,
  ) {
    this.config = config
    const preload = plantedPackages === undefined ? ['wall-clock'] : ['wall-clock', 'planted-packages']
    this.#child = fork(path.join(WORKERS, `${config.kind}.ts`), [JSON.stringify(config)], {
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
      execArgv: [
        '--disable-warning=ExperimentalWarning',
        ...preload.flatMap((name) => ['--import', path.join(WORKERS, `${name}.ts`)]),
      ],
      env: {
        ...process.env,
        ...(plantedPackages !== undefined && { TXBOX_CHAOS_PACKAGES: plantedPackages }),
      },
    })
    for (const stream of [this.#child.stdout, this.#child.stderr]) {
      stream?.on('data', (bytes: Buffer) => appendFileSync(outputFile, bytes))
    }
    this.#child.on('error', () => undefined)
    this.#child.on('message', (message: FromWorker) => {
      if (message.what === 'report') return events.report(this, message)
      this.isReady = true
      this.#ready.resolve()
      events.ready(this)
    })
    this.ended = new Promise((resolve) => {
      this.#child.once('exit', (code, signal) => {
        this.end = signal ?? code ?? 0
        resolve(this.end)
        events.exit(this)
      })
    })
  }

  get pid(): number {
    return this.#child.pid ?? 0
  }

  get isRunning(): boolean {
    return this.end === undefined
  }

  say(message: ToWorker): void {
    if (this.#child.connected) this.#child.send(message, () => undefined)
  }

  signal(signal: 'SIGKILL' | 'SIGTERM' | 'SIGSTOP' | 'SIGCONT'): void {
    if (signal === 'SIGSTOP') this.#isStopped = true
    if (signal === 'SIGCONT') this.#isStopped = false
    this.#child.kill(signal)
  }

  /** Ends the process by SIGTERM, and by force when that takes too long. @returns whether it ended by itself, with code 0. */
  async stop(timeoutMs: number): Promise<boolean> {
    if (this.#isStopped) this.signal('SIGCONT')
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<'late'>((resolve) => (timer = setTimeout(resolve, timeoutMs, 'late')))
    // Before the process has started its work, it may not handle the signal yet, which would then kill it.
    await Promise.race([this.#ready.promise, this.ended, late])
    this.signal('SIGTERM')
    const end = await Promise.race([this.ended, late])
    clearTimeout(timer)
    if (end !== 'late') return end === 0
    this.signal('SIGKILL')
    await this.ended
    return false
  }
}
