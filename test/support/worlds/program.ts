import { execFile, fork, type ChildProcess } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { onTestFinished } from 'vitest'
import type { ProgramConfig } from '../../crash/programs/mortal.ts'
import type { OutboxTarget } from '../engines/outbox-target.ts'
import type { Row } from '../engines/target.ts'
import { until } from './until.ts'

const FOLDER = path.join(import.meta.dirname, '..', '..', 'crash', 'programs')

export type ProgramName =
  | 'relay'
  | 'local-relay'
  | 'local-hub'
  | 'consumer'
  | 'producer'
  | 'queue-consumer'
  | 'local-consumer'
  | 'http-server'
  | 'sqs-consumer'
  | 'reporter'

/** A program of test/crash/programs in a process of its own, which can be killed and paused for real. */
export class Program {
  /** The process ids of all programs that were started here, dead or alive. */
  static readonly #pids: [ProgramName, number][] = []
  readonly #process: ChildProcess
  readonly #reports: string[] = []
  readonly #ended: Promise<NodeJS.Signals | number>
  #complaint = ''

  constructor(name: ProgramName, config: ProgramConfig) {
    this.#process = fork(path.join(FOLDER, `${name}.ts`), [JSON.stringify(config)], {
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
      execArgv: ['--disable-warning=ExperimentalWarning'],
    })
    Program.#pids.push([name, this.#process.pid ?? 0])
    this.#process.on('message', (message) => void this.#reports.push(message as string))
    this.#process.stderr?.on('data', (chunk: Buffer) => (this.#complaint += chunk.toString()))
    this.#ended = new Promise((resolve) => {
      this.#process.once('exit', (code, signal) => resolve(signal ?? code ?? 0))
    })
    onTestFinished(async () => void (await this.kill()))
  }

  get pid(): number {
    return this.#process.pid ?? 0
  }

  static pidsOf(name: ProgramName): readonly number[] {
    return Program.#pids.flatMap(([other, pid]) => (other === name ? [pid] : []))
  }

  /** Starts a program, and resolves when it works. */
  static async started(name: ProgramName, config: ProgramConfig): Promise<Program> {
    const program = new Program(name, config)
    await program.reports('started')
    return program
  }

  /** Resolves when the program has reported this event, so many times. */
  async reports(text: string, times = 1): Promise<void> {
    await until(
      async () => this.#reports.filter((report) => report.startsWith(text)).length >= times,
      () =>
        `the program reports '${text}'; it reported ${JSON.stringify(this.#reports.slice(-20))} ${this.#complaint}`,
      15_000,
    )
  }

  say(text: string): void {
    this.#process.send(text)
  }

  /** @returns the signal that ended it, or its exit code. */
  async ended(): Promise<NodeJS.Signals | number> {
    const late = AbortSignal.timeout(20_000)
    return Promise.race([
      this.#ended,
      new Promise<never>((_, reject) => {
        late.addEventListener('abort', () =>
          reject(
            new Error(
              `The program goes on; it reported ${JSON.stringify(this.#reports.slice(-20))} ${this.#complaint}`,
            ),
          ),
        )
      }),
    ])
  }

  kill(signal: 'SIGKILL' | 'SIGTERM' = 'SIGKILL'): Promise<NodeJS.Signals | number> {
    this.#process.kill(signal)
    return this.#ended
  }

  pause(): void {
    this.#process.kill('SIGSTOP')
  }

  resume(): void {
    this.#process.kill('SIGCONT')
  }

  /** Resolves when the operating system reports that the program is stopped. */
  async paused(): Promise<void> {
    await until(
      async () => (await stateOf(this.#process.pid)).startsWith('T'),
      () =>
        `the program is stopped; it reported ${JSON.stringify(this.#reports.slice(-20))} ${this.#complaint}`,
      15_000,
    )
  }
}

/**
 * Resolves when the server has detected that all programs of this name are gone: the last statement of a program,
 * such as COMMIT, may be executed after the program's death.
 */
export async function disconnected(outbox: OutboxTarget, name: ProgramName): Promise<void> {
  const connections = async (): Promise<readonly Row[]> => {
    if (!outbox.url().startsWith('mysql:')) {
      return outbox.sql(
        'select state, query from pg_stat_activity where datname = current_database() and application_name = ?',
        [name],
      )
    }
    const locks = Program.pidsOf(name).map((pid) => `${name} ${pid}`)
    const asked = locks.map(() => 'select ? as program, is_free_lock(?) as gone').join(' union all ')
    const rows = await outbox.sql(
      asked,
      locks.flatMap((lock) => [lock, lock]),
    )
    return rows.filter((row) => Number(row['gone']) !== 1)
  }
  await until(
    async () => (await connections()).length === 0,
    async () => `the connections of ${name} are gone: ${JSON.stringify(await connections())}`,
  )
}

/** The letter by which the system names a process's state: T is stopped. */
async function stateOf(pid: number | undefined): Promise<string> {
  if (process.platform === 'linux') {
    // The name, in parentheses, may hold anything.
    return (await readFile(`/proc/${pid}/stat`, 'utf8')).replace(/^.*\) /s, '')
  }
  return new Promise((resolve) =>
    execFile('ps', ['-o', 'state=', '-p', String(pid)], (_, state) => resolve(state.trim())),
  )
}
