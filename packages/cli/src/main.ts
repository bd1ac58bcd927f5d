#!/usr/bin/env node
import { createProgram } from './program.ts'
import { exitCodeOf, oneLine } from './failure.ts'

try {
  await createProgram().parseAsync()
} catch (error) {
  const line = oneLine(error)
  if (line !== '') process.stderr.write(`${line}\n`)
  process.exitCode = exitCodeOf(error)
}
