import { oneLine } from '@txbox/core/internal'
import { Option, type Command } from 'commander'
import type { Installation } from './installation.ts'
import { withoutSecrets } from './without-secrets.ts'

export const EXIT_CODES = '\nExit codes: 0 done, 1 failed, 2 wrong usage.'

/** The maximum length of a usage error, which quotes an argument. */
const USAGE_CHARACTERS = 1000

/** Makes a command throw instead of exiting, and write usage errors as one line that refers to the right help. */
export function withUsageErrors(command: Command): Command {
  return command.exitOverride().configureOutput({
    outputError(text, write) {
      // Commander's errors quote the arguments unchanged, and put hints on separate lines.
      const line = oneLine(withoutSecrets(text.replace(/^error: /, '')), USAGE_CHARACTERS)
      write(`txbox: ${line} (see '${fullNameOf(command)} --help')\n`)
    },
  })
}

function fullNameOf(command: Command): string {
  return command.parent === null ? command.name() : `${fullNameOf(command.parent)} ${command.name()}`
}

/** The end of a help text: examples, and the exit codes. */
export function examples({ calledAs }: Installation, ...lines: readonly string[]): string {
  return `\nExamples:\n${lines.map((line) => `  ${calledAs} ${line}\n`).join('')}${EXIT_CODES}`
}

/** Creates a command with the options that every command has. */
export function withDatabase(program: Command, name: string, installation: Installation): Command {
  return withUsageErrors(program.command(name))
    .setOptionValue('installation', installation)
    .addOption(
      new Option('--database <url>', 'postgres://… or mysql://user@host/database').env('DATABASE_URL'),
    )
    .option('--schema <name>', "PostgreSQL: the schema of txbox's tables (default: txbox)")
    .option('--prefix <text>', "MySQL, MariaDB: the prefix of the names of txbox's tables (default: txbox_)")
    .option('--json', 'write JSON for programs, one object per line')
}
