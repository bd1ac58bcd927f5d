import { createProgram } from './program.ts'
import { atPlace, type Place } from './at-place.ts'
import { exitCodeOf, oneLine } from './failure.ts'
import type { Installation } from './installation.ts'
import { watchOutput } from './output-reader.ts'

export async function runTxbox(installation: Installation): Promise<void> {
  watchOutput()
  const program = createProgram(installation)
  let place: Place = {}
  program.hook('preAction', (_program, command) => void (place = command.opts<Place>()))
  try {
    await program.parseAsync()
  } catch (error) {
    const line = atPlace(oneLine(error), place)
    if (line !== '') process.stderr.write(`${line}\n`)
    process.exitCode = exitCodeOf(error)
  }
}
