#!/usr/bin/env node
// Use only syntax that every Node.js understands here: static imports are parsed before this code runs.
const NEEDED = [22, 12] as const

const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
if (major < NEEDED[0] || (major === NEEDED[0] && minor < NEEDED[1])) {
  process.stderr.write(
    `txbox: this command needs Node.js ${NEEDED.join('.')} or later; this is Node.js ${process.versions.node}.\n`,
  )
  process.exitCode = 1
} else {
  const { runTxbox } = await import('./run-txbox.ts')
  await runTxbox()
}
