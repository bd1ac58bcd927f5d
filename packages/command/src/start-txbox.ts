// Use only syntax that every Node.js understands here: static imports are parsed before this code runs.
import type { Installation } from './installation.ts'

const MIN_NODE = [22, 12] as const

/**
 * Runs the txbox command with the arguments of this process, and sets the exit code. If Node.js is too old, writes one
 * sentence that says so.
 */
export async function startTxbox(installation: Installation): Promise<void> {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
  if (major < MIN_NODE[0] || (major === MIN_NODE[0] && minor < MIN_NODE[1])) {
    process.stderr.write(
      `txbox: this command needs Node.js ${MIN_NODE.join('.')} or later; this is Node.js ${process.versions.node}.\n`,
    )
    process.exitCode = 1
    return
  }
  const { runTxbox } = await import('./run-txbox.ts')
  await runTxbox(installation)
}
