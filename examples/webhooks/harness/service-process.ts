import { fork, type ChildProcess } from 'node:child_process'
import path from 'node:path'

const FAILED_STARTS = 5
const PAUSE_AFTER_FAILED_START_MS = 300
const STOP_WITHIN_MS = 5000

/** A service in a process of its own. When it ends, it is started again, as an orchestrator does. */
export class ServiceProcess {
  readonly name: string
  /** Rejects if the service fails to start several times. */
  readonly failed: Promise<never>
  /** How often it was killed. */
  kills = 0
  /** How the process ended when the demo had not killed it. */
  readonly crashes: string[] = []
  /** The last error that the service printed. */
  lastError: string | undefined
  readonly #file: string
  readonly #environment: Readonly<NodeJS.ProcessEnv>
  readonly #failure = Promise.withResolvers<never>()
  #child: ChildProcess | undefined
  #up = Promise.withResolvers<void>()
  #isUp = false
  #failedStarts = 0
  #stopping = false

  constructor(name: string, file: string, environment: Readonly<NodeJS.ProcessEnv>) {
    this.name = name
    this.#file = path.join(import.meta.dirname, '..', 'services', file)
    this.#environment = environment
    this.failed = this.#failure.promise
    this.failed.catch(() => undefined)
  }

  /** Resolves when the service works; after a kill, when the service works again. */
  get ready(): Promise<void> {
    return this.#up.promise
  }

  start(): void {
    const child = fork(this.#file, {
      env: { ...process.env, ...this.#environment },
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
      // A separate process group: Ctrl-C ends only the demo, which ends its services itself.
      detached: true,
    })
    this.#child = child
    child.stderr?.on(
      'data',
      (chunk: Buffer) => (this.lastError = errorIn(chunk.toString()) ?? this.lastError),
    )
    child.once('message', () => {
      if (!child.killed) this.#rise()
    })
    child.once('exit', (code, signal) => this.#restart(signal ?? `exit code ${code}`, child.killed))
  }

  /** Kills at once and without warning, as the kernel does when memory runs out. */
  kill(): void {
    if (this.#child?.kill('SIGKILL') !== true) return
    this.kills++
    this.#fall()
  }

  async stop(): Promise<void> {
    this.#stopping = true
    const child = this.#child
    if (child === undefined) return
    const exited = new Promise((resolve) => child.once('exit', resolve))
    child.kill('SIGTERM')
    const late = setTimeout(() => child.kill('SIGKILL'), STOP_WITHIN_MS)
    await exited
    clearTimeout(late)
  }

  #rise(): void {
    this.#isUp = true
    this.#failedStarts = 0
    this.#up.resolve()
  }

  #fall(): void {
    if (this.#isUp) this.#up = Promise.withResolvers<void>()
    this.#isUp = false
  }

  #restart(end: string, killed: boolean): void {
    this.#child = undefined
    if (this.#stopping) return
    if (killed) return this.start()
    this.crashes.push(`${end}, ${this.lastError ?? 'without a word'}`)
    if (this.#isUp) {
      this.#fall()
      return this.start()
    }
    if (++this.#failedStarts === FAILED_STARTS) {
      this.#failure.reject(new Error(`The ${this.name} does not start: ${this.crashes.at(-1)}`))
    } else {
      setTimeout(() => this.#stopping || this.start(), PAUSE_AFTER_FAILED_START_MS)
    }
  }
}

/** The line with the error message, from the text that Node prints about an error. */
function errorIn(text: string): string | undefined {
  return text
    .split('\n')
    .findLast((line) => /^\s*(\[cause\]: )?(Uncaught )?\w*Error\b/.test(line))
    ?.trim()
}
