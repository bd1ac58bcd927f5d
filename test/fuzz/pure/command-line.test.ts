import * as fc from 'fast-check'
import { expect } from 'vitest'
import { fuzz } from '../../support/worlds/fuzz.ts'
import { hostileText } from '../../support/worlds/hostile-values.ts'
import { OBEYED, txboxHere } from '../../support/subjects/txbox-in-process.ts'

const PASSWORD = 's3cr3t'

/** An argument that the shell can pass: valid UTF-8 without NUL. */
const word = hostileText().map((text) => text.replaceAll('\0', '').toWellFormed())

const COMMANDS = ['migrate', 'relay', 'gc', 'status', 'dead-letters', 'doctor', 'help']
const GROUP = ['list', 'show', 'redrive', 'discard']
const OPTIONS = [
  ...['--database', '--schema', '--prefix', '--json', '--dry-run', '--drain', '--timeout', '--batch-size'],
  ...['--batch-bytes', '--wakeup', '--lease-ms', '--poll-min-ms', '--poll-max-ms', '--owner'],
  ...['--stop-timeout-ms', '--log-interval-ms', '--interval-ms', '--pause-ms', '--dead-letter-retention-ms'],
  ...['--watch', '--topic', '--type', '--key', '--parked', '--limit', '--after', '--payload', '--yes'],
  ...['--long-transaction-ms', '--publisher', '--exchange', '--health-host', '-x', '--version', '--help'],
]

/** Nothing listens on the port of the discard service. */
const NOWHERE = ['postgres', 'mysql', 'mariadb'].map((engine) => `${engine}://u:${PASSWORD}@127.0.0.1:9/shop`)
const url = fc.oneof(
  fc.constantFrom(...NOWHERE),
  word,
  fc
    .tuple(fc.constantFrom(...NOWHERE), word, word)
    .map(([base, name, value]) => `${base}?${encodeURIComponent(name)}=${encodeURIComponent(value)}`),
  word.map((text) => `${NOWHERE[0]}${text}`),
)
const value = fc.oneof(
  word,
  url,
  fc.nat().map(String),
  fc.constantFrom('-1', '1e3', '0x10', '99999999999999999999', 'stdout:', 'forever', 'poll'),
)
const args = fc
  .tuple(
    fc.oneof({ weight: 9, arbitrary: fc.constantFrom(...COMMANDS) }, word),
    fc.oneof(fc.constantFrom(...GROUP), word, fc.constant(undefined)),
    fc.array(
      fc.tuple(fc.oneof({ weight: 5, arbitrary: fc.constantFrom(...OPTIONS) }, word), fc.option(value)),
      {
        maxLength: 4,
      },
    ),
  )
  .map(([command, sub, options]) =>
    [
      [command],
      sub === undefined || command !== 'dead-letters' ? [] : [sub],
      options.flatMap(([name, given]) => (given === null ? [name] : [name, given])),
    ].flat(),
  )

fuzz(
  'N2 the command answers any arguments with an exit code and one line of output',
  300,
  fc.tuple(args, fc.option(url)),
  async ([words, database]) => {
    const { code, stdout, stderr } = await txboxHere(words, database ?? undefined)
    expect([0, 1, 2]).toContain(code)
    expect(OBEYED.test(stdout + stderr), JSON.stringify((stdout + stderr).slice(0, 2000))).toBe(false)
    expect(stdout + stderr).not.toContain(PASSWORD)
    expect(stderr).not.toMatch(/\n {4}at /)
    for (const line of stderr.split('\n')) expect(line.length).toBeLessThanOrEqual(2200)
    if (code !== 0) expect(stderr).not.toBe('')
  },
)
