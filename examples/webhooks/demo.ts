// npm run demo: real GitHub webhooks through two services that are killed again and again. See README.md.
import { constants } from 'node:os'
import { untilCaughtUp, type Counts } from './harness/caught-up.ts'
import { planKills, wreakHavoc } from './harness/chaos.ts'
import { Deliverer } from './harness/deliverer.ts'
import { HELP, WrongUsage, parseOptions, type DemoOptions } from './harness/demo-options.ts'
import { Progress } from './harness/progress.ts'
import { SeededRandom } from './harness/seeded-random.ts'
import { lookAt, setStage, type Stage } from './harness/stage.ts'
import { judge, type Verdict } from './harness/verdict.ts'
import { format, verdictTable } from './harness/verdict-table.ts'
import { makeWebhooks, schedule } from './harness/webhooks.ts'

class Interrupted extends Error {
  readonly exitCode: number

  constructor(signal: 'SIGINT' | 'SIGTERM' | 'SIGHUP') {
    super(`Stopped by ${signal}. Nothing is left behind.`)
    this.exitCode = 128 + constants.signals[signal]
  }
}

interface Conclusion {
  readonly lines: readonly string[]
  readonly exitCode: 0 | 1
}

const interruption = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.on(signal, () => interruption.abort(new Interrupted(signal)))
}
// The reader of the output may go away, as in `npm run demo | head`.
process.stdout.on('error', () => interruption.abort(new Error('Nobody reads what the demo prints.')))
process.exitCode = await main(process.argv.slice(2))

async function main(args: readonly string[]): Promise<number> {
  try {
    const options = parseOptions(args)
    if (options === 'help') {
      console.log(HELP)
      return 0
    }
    return await demonstrate(options)
  } catch (thrown) {
    // If the clean-up fails too, the earlier error is more useful.
    const error: unknown = thrown instanceof SuppressedError ? thrown.suppressed : thrown
    console.error((error instanceof Error ? error.message : String(error)).split('\n')[0])
    if (error instanceof Interrupted) return error.exitCode
    return error instanceof WrongUsage ? 2 : 1
  }
}

async function demonstrate(options: DemoOptions): Promise<number> {
  const startedAt = performance.now()
  await using cleanup = new AsyncDisposableStack()
  const over = new AbortController()
  const signal = AbortSignal.any([interruption.signal, over.signal])

  console.log('Starting the databases and the services.')
  const stage = await setStage(options.database, cleanup)
  cleanup.defer(() => over.abort())
  for (const line of stage.description) console.log(line)
  signal.throwIfAborted()

  const interrupted = new Promise<never>((_, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true })
  })
  const failures = stage.services.map((service) => service.failed)
  const caughtUp = await Promise.race([run(options, stage, signal), interrupted, ...failures])

  const verdict = await judge(stage.parties)
  console.log(`\n${verdictTable(verdict)}\n`)
  const { lines, exitCode } = conclusion(verdict, stage, caughtUp)
  for (const line of lines) console.log(line)
  console.log(`It took ${Math.round((performance.now() - startedAt) / 1000)} seconds.`)
  return exitCode
}

/** Delivers webhooks, kills services, and waits until the work is done. @returns whether the second service has caught up. */
async function run(options: DemoOptions, stage: Stage, signal: AbortSignal): Promise<boolean> {
  const random = new SeededRandom(options.seed)
  const webhooks = makeWebhooks(options.deliveries, random)
  const deliveries = schedule(webhooks, random)
  const plan = options.kill ? planKills(stage.services, deliveries.length, random) : []
  console.log(
    `${format(webhooks.length)} webhooks, each sent one to three times, shuffled: ${format(deliveries.length)} ` +
      `deliveries. ${plan.length === 0 ? 'No' : plan.length} kills. Seed ${options.seed}.\n`,
  )
  await Promise.all(stage.services.map((service) => service.ready))

  const deliverer = new Deliverer({ ...stage.receiver, log: stage.log }, signal)
  let sent = false
  const work = Promise.all([
    deliverer.deliver(deliveries),
    wreakHavoc(plan, () => deliverer.acknowledged, signal),
  ]).then(() => (sent = true))

  const progress = new Progress(process.stdout)
  const show = ({ acknowledged, effects, followed }: Counts): void => {
    const kills = stage.services.reduce((sum, service) => sum + service.kills, 0)
    progress.show(
      (acknowledged / deliveries.length + followed / webhooks.length) / 2,
      `${format(acknowledged)}/${format(deliveries.length)} deliveries · ${format(effects)} effects · ` +
        `${format(followed)} at 2nd service · ${kills} ${kills === 1 ? 'kill' : 'kills'}`,
    )
  }
  const look = async (): Promise<Counts> => {
    await stage.log.write()
    return lookAt(stage, deliverer.acknowledged)
  }
  try {
    const [caughtUp] = await Promise.all([untilCaughtUp(look, () => sent, show, signal), work])
    return caughtUp
  } finally {
    progress.end()
  }
}

function conclusion({ lost, doubled, disordered }: Verdict, stage: Stage, caughtUp: boolean): Conclusion {
  const { services } = stage
  const killed = services
    .filter(({ kills }) => kills > 0)
    .map(({ name, kills }) => `the ${name} ${kills} times`)
  const lines = [
    killed.length === 0
      ? 'Nothing was killed.'
      : `Killed by SIGKILL, and started again: ${killed.join(', ')}.`,
  ]
  for (const { name, crashes } of services) {
    lines.push(...crashes.map((end) => `Nobody killed the ${name}, but it ended: ${end}`))
  }
  const isProof = lost === 0 && doubled === 0 && disordered === 0
  if (!isProof) {
    lines.push('This must not happen: effects are lost, doubled or out of order.')
  } else if (caughtUp) {
    lines.push(
      'Every webhook took effect exactly once in both services, and those of a repository in their order.',
    )
  }
  if (!caughtUp) {
    lines.push('Nothing moved for half a minute, and the second service had not caught up.')
    for (const { name, lastError } of services) {
      if (lastError !== undefined) lines.push(`The last error of the ${name}: ${lastError}`)
    }
  }
  return { lines, exitCode: isProof && caughtUp ? 0 : 1 }
}
