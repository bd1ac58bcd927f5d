import { createProgram } from './program.ts'
import { exitCodeOf, oneLine } from './failure.ts'
import type { Installation } from './installation.ts'
import { watchOutput } from './output-reader.ts'

/** Runs the whole command: parses the arguments, runs the command, and sets the exit code. */
export async function runTxbox(installation: Installation): Promise<void> {
  watchOutput()
  try {
    await createProgram(installation).parseAsync()
  } catch (error) {
    const line = oneLine(error)
    if (line !== '') process.stderr.write(`${line}\n`)
    process.exitCode = exitCodeOf(error)
  }
}
