import { runTxbox } from '../../packages/command/dist/run-txbox.js'
import { INSTALLATION } from './txbox-installation.ts'

export interface Ran {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

/** The command in this process: thousands of runs take the time of a few processes. One at a time. */
export async function txboxHere(args: readonly string[], databaseUrl?: string): Promise<Ran> {
  const before = { argv: process.argv, code: process.exitCode, url: process.env['DATABASE_URL'] }
  const stdout = captured(process.stdout)
  const stderr = captured(process.stderr)
  const { error, warn } = console
  // What a driver complains of.
  console.error = console.warn = (...values) => void stderr.texts.push(`${values.map(String).join(' ')}\n`)
  try {
    process.argv = [process.execPath, 'txbox', ...args]
    process.exitCode = 0
    if (databaseUrl === undefined) delete process.env['DATABASE_URL']
    else process.env['DATABASE_URL'] = databaseUrl
    await runTxbox(INSTALLATION)
    return {
      code: Number(Reflect.get(process, 'exitCode')),
      stdout: stdout.texts.join(''),
      stderr: stderr.texts.join(''),
    }
  } finally {
    Object.assign(console, { error, warn })
    stdout.release()
    stderr.release()
    process.argv = before.argv
    process.exitCode = before.code
    if (before.url === undefined) delete process.env['DATABASE_URL']
    else process.env['DATABASE_URL'] = before.url
  }
}

function captured(stream: NodeJS.WriteStream): { readonly texts: string[]; release(): void } {
  const texts: string[] = []
  const write = stream.write.bind(stream)
  const listeners = stream.listeners('error')
  stream.write = (chunk: Uint8Array | string, ...rest: unknown[]) => {
    texts.push(typeof chunk === 'string' ? chunk : Buffer.from(chunk).toString())
    const done = rest.findLast((value) => typeof value === 'function')
    done?.()
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
