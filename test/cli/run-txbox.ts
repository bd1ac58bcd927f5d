import { spawn, type ChildProcess } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { runTxbox } from '../../packages/command/dist/run-txbox.js'
import { INSTALLATION } from '../support/txbox-installation.ts'

export const MAIN = fileURLToPath(new URL('../../packages/cli/dist/main.js', import.meta.url))

export interface Ended {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

/** How a process is started differently from how a script starts it. */
interface Circumstances {
  /** What somebody types, who sits at a terminal. */
  readonly typed?: string
  /** JavaScript that runs in the process before the command. */
  readonly before?: string
}

/** For the command, standard input and standard error are a terminal then. */
const TERMINAL =
  "for (const s of [process.stdin, process.stderr]) Object.defineProperty(s, 'isTTY', { value: true })"

/** The environment of the command: without an address but the one given. */
function environmentWith(env: Readonly<Record<string, string>>): NodeJS.ProcessEnv {
  const { DATABASE_URL: _, PUBLISHER_URL: __, COLUMNS: ___, ...inherited } = process.env
  return { ...inherited, NO_COLOR: '1', ...env }
}

/**
 * The command as a user runs it: a process of its own. For signals, for a terminal, and once for each command, to see that
 * its process ends by itself.
 */
export function startTxbox(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
  { typed, before = typed === undefined ? undefined : TERMINAL }: Circumstances = {},
): ChildProcess {
  const flags = before === undefined ? [] : ['--import', `data:text/javascript,${encodeURIComponent(before)}`]
  const child = spawn(process.execPath, [...flags, MAIN, ...args], {
    env: environmentWith(env),
    stdio: [typed === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'],
  })
  child.stdin?.end(typed)
  return child
}

/** Resolves when the process has ended, with all that it said. */
export function ended(child: ChildProcess): Promise<Ended> {
  let stdout = ''
  let stderr = ''
  child.stdout?.on('data', (chunk: Buffer) => (stdout += chunk.toString()))
  child.stderr?.on('data', (chunk: Buffer) => (stderr += chunk.toString()))
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('close', (code) => resolve({ code, stdout, stderr }))
  })
}

/** Runs the command in a process of its own, to its end. */
export function spawnTxbox(
  args: readonly string[],
  env?: Readonly<Record<string, string>>,
  circumstances?: Circumstances,
): Promise<Ended> {
  return ended(startTxbox(args, env, circumstances))
}

let isRunning = false

/**
 * Runs the command in this process, to its end: the same code, without the half second that a process takes to load. Its
 * arguments, its environment, what it writes and its exit code are those that a process of its own would have.
 */
export async function txbox(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<Ended> {
  if (isRunning) throw new Error('One command at a time: its output is that of the whole process.')
  isRunning = true
  const { argv, env: environment, exitCode } = process
  const stdout = capture(process.stdout)
  const stderr = capture(process.stderr)
  process.argv = [process.execPath, MAIN, ...args]
  process.env = environmentWith(env)
  process.exitCode = undefined
  try {
    await runTxbox(INSTALLATION)
    return {
      code: (process.exitCode as number | undefined) ?? 0,
      stdout: stdout.text(),
      stderr: stderr.text(),
    }
  } finally {
    process.exitCode = exitCode
    process.env = environment
    process.argv = argv
    stderr.restore()
    stdout.restore()
    isRunning = false
  }
}

/** Takes what is written to a stream of this process, until `restore`. */
function capture(stream: NodeJS.WriteStream): { text(): string; restore(): void } {
  const write = stream.write.bind(stream)
  const listeners = stream.listeners('error')
  let text = ''
  const take = (chunk: Uint8Array | string, ...rest: unknown[]): boolean => {
    text += typeof chunk === 'string' ? chunk : Buffer.from(chunk).toString()
    const done = rest.at(-1)
    if (typeof done === 'function') process.nextTick(done)
    return true
  }
  stream.write = take
  return {
    text: () => text,
    restore() {
      stream.write = write
      for (const listener of stream.listeners('error')) {
        if (!listeners.includes(listener)) stream.off('error', listener as (error: Error) => void)
      }
    },
  }
}
