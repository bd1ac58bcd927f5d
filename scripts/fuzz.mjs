// Runs the fuzz tests by themselves.
import { spawn } from 'node:child_process'
import { parseArgs } from 'node:util'

/** A short run has some 66,000 cases. */
const LONG_FACTOR = 16

const HELP = `npm run fuzz -- [options] [test files]

Runs hostile input against everything that txbox takes from outside.

  --long       about a million cases, without a server: half an hour on two busy cores
  --database   also on the servers that are found
  --seed S     repeats a run; without it the seed is random, and printed
  --help       this text`

const { values, positionals } = argumentsOf()
if (values.help) {
  console.log(HELP)
  process.exit(0)
}
const seed = values.seed ?? String(Math.trunc(Math.random() * 2 ** 31))
if (!/^-?\d{1,10}$/.test(seed)) {
  console.error(`--seed must be a whole number, not '${seed}'.`)
  process.exit(2)
}
const projects = values.database ? ['fuzz', 'fuzz-postgres', 'fuzz-mysql', 'fuzz-mariadb'] : ['fuzz']
const factor = values.long ? LONG_FACTOR : 1
const child = spawn(
  'vitest',
  ['run', ...projects.map((name) => `--project=${name}`), '--maxWorkers=1', ...positionals],
  {
    env: { ...process.env, TXBOX_FUZZ_SEED: seed, TXBOX_FUZZ_FACTOR: String(factor) },
    stdio: ['inherit', 'pipe', 'inherit'],
  },
)
let cases = 0
let rest = ''
child.stdout.on('data', (chunk) => {
  process.stdout.write(chunk)
  const lines = `${rest}${chunk}`.split('\n')
  rest = lines.pop() ?? ''
  for (const line of lines) cases += Number(/fuzz: (\d+) cases/.exec(line)?.[1] ?? 0)
})
child.on('close', (code) => {
  console.log(`${cases.toLocaleString('en')} cases with seed ${seed}.`)
  process.exitCode = code ?? 1
})

function argumentsOf() {
  try {
    return parseArgs({
      allowPositionals: true,
      options: {
        long: { type: 'boolean' },
        database: { type: 'boolean' },
        seed: { type: 'string' },
        help: { type: 'boolean' },
      },
    })
  } catch (error) {
    console.error(`${error.message.split('. ')[0]}.\n\n${HELP}`)
    return process.exit(2)
  }
}
