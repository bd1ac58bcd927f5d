import { runTxbox } from '../../../packages/command/dist/run-txbox.js'
import { INSTALLATION } from './txbox-installation.ts'

export interface Ran {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

let isRunning = false

/** The command in this process: thousands of runs take the time of a few processes. One at a time. */
export function txboxHere(args: readonly string[], databaseUrl?: string): Promise<Ran> {
  return runHere(args, environmentWith(databaseUrl === undefined ? {} : { DATABASE_URL: databaseUrl }))
}

/** The environment of a command, without any address but the given one. */
export function environmentWith(env: Readonly<Record<string, string>>): NodeJS.ProcessEnv {
  const { DATABASE_URL: _, PUBLISHER_URL: __, COLUMNS: ___, ...inherited } = process.env
  return { ...inherited, NO_COLOR: '1', ...env }
}

/** Arguments, environment, output and exit code are the same as in a separate process. */
export async function runHere(args: readonly string[], env: NodeJS.ProcessEnv): Promise<Ran> {
  if (isRunning) throw new Error('One command at a time: its output is that of the whole process.')
  isRunning = true
  const before = { argv: process.argv, env: process.env, exitCode: process.exitCode }
  const stdout = captured(process.stdout)
  const stderr = captured(process.stderr)
  const { error, warn } = console
  // A warning of a driver.
  console.error = console.warn = (...values) => void stderr.texts.push(`${values.map(String).join(' ')}\n`)
  try {
    process.argv = [process.execPath, 'txbox', ...args]
    process.env = env
    process.exitCode = 0
    await runTxbox(INSTALLATION)
    return { code: exitCode(), stdout: stdout.texts.join(''), stderr: stderr.texts.join('') }
  } finally {
    Object.assign(console, { error, warn })
    stdout.release()
    stderr.release()
    process.argv = before.argv
    process.env = before.env
    process.exitCode = before.exitCode
    isRunning = false
  }
}

/** A property that the command has set, which the compiler cannot know. */
function exitCode(): number {
  return typeof process.exitCode === 'number' ? process.exitCode : Number.NaN
}

function captured(stream: NodeJS.WriteStream): { readonly texts: string[]; release(): void } {
  const texts: string[] = []
  const write = stream.write.bind(stream)
  const listeners = stream.listeners('error')
  stream.write = (chunk: Uint8Array | string, ...rest: unknown[]) => {
    texts.push(typeof chunk === 'string' ? chunk : Buffer.from(chunk).toString())
    const done = rest.findLast((value) => typeof value === 'function')
    if (typeof done === 'function') done()
    return true
  }
  return {
    texts,
    release() {
      stream.write = write
      for (const listener of stream.listeners('error')) {
        if (!listeners.includes(listener)) stream.off('error', listener as never)
      }
    },
  }
}

/** Characters that a terminal obeys, but for the ends of lines. */
export const OBEYED = /[^\P{Cc}\n]|[\p{Bidi_Control}\u2028\u2029\uFEFF]/u
