import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

const PROGRAM = `
import { createBatcher } from '@txbox/consumer'
const from = performance.now()
const process_ = () => console.log(performance.now() - from >= 200 ? 'processed after 200 ms or more' : 'too early')
const batcher = createBatcher({ process: process_, maxSize: 10, lingerMs: 200 })
createBatcher({ process: process_, maxSize: 10, lingerMs: 3_600_000 })
batcher.add(1)
process.on('exit', (code) => console.log('clean exit', code))
`

/** Runs a program with an item that lingers, and an empty batcher beside. @returns the output of the program. */
export async function runProgram(): Promise<string> {
  const options = { cwd: import.meta.dirname, timeout: 50_000 }
  const { stdout } = await promisify(execFile)(
    process.execPath,
    ['--input-type=module', '--eval', PROGRAM],
    options,
  )
  return stdout
}
