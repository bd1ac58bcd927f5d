import { spawn, type ChildProcess } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { environmentWith, runHere } from '../support/subjects/txbox-in-process.ts'

const MAIN = fileURLToPath(new URL('../../packages/cli/dist/main.js', import.meta.url))

export interface Ended {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

/** The differences from a process that a script starts. */
interface Circumstances {
  /** The input that a user types at a terminal. */
  readonly typed?: string
  /** JavaScript that runs in the process before the command. */
  readonly before?: string
}

/** Whether standard input and standard error are a terminal for the command. */
const TERMINAL =
  "for (const s of [process.stdin, process.stderr]) Object.defineProperty(s, 'isTTY', { value: true })"

/**
 * Runs the command as a user does, as a process: for signals, for a terminal, and once for each command, to check that
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

/** Resolves when the process has ended, with its exit code and its output. */
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

/** Runs the command in a separate process, to its end. */
export function spawnTxbox(
  args: readonly string[],
  env?: Readonly<Record<string, string>>,
  circumstances?: Circumstances,
): Promise<Ended> {
  return ended(startTxbox(args, env, circumstances))
}

/**
 * Runs the command in this process, to its end: the same code, without the half second that a process takes to load.
 */
export function txbox(args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<Ended> {
  return runHere(args, environmentWith(env))
}
