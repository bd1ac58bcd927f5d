import { createProgram } from './program.ts'
import { exitCodeOf, oneLine } from './failure.ts'
import { watchOutput } from './output-reader.ts'

/** Runs the whole command: parses the arguments, runs the command, and sets the exit code. */
export async function runTxbox(): Promise<void> {
  watchOutput()
  try {
    await createProgram().parseAsync()
  } catch (error) {
    const line = oneLine(error)
    if (line !== '') process.stderr.write(`${line}\n`)
    process.exitCode = exitCodeOf(error)
  }
}
