import type { Finding } from '@txbox/core/ports'
import { allowedFindings, reasonOf } from '@txbox/core/internal'
import type { Publisher } from '@txbox/relay'
import { atPlace } from './at-place.ts'
import { consumerFindings } from './consumer-findings.ts'
import { connectDatabase, type DatabaseOptions } from './connect-database.ts'
import { createPublisher } from './publish/create-publisher.ts'
import { wrap } from './layout.ts'
import { oldestDueFinding } from './oldest-due.ts'
import { paint, terminalColumns, write, writeJson } from './terminal.ts'
import { trafficFindings } from './traffic-findings.ts'
import { visible } from './visible.ts'
import { withoutSecrets } from './without-secrets.ts'

/** The number of blocked keys that the finding about them names. */
const BLOCKING_KEYS = 3
const QUEUES = 100
const CONSUMERS = 100
const STUCK_KEYS = 10
const PUBLISHER_TIMEOUT_MS = 10_000
/**
 * The column at which the text of a finding begins: after verdict and name, or on a separate line on a narrow terminal.
 */
const INDENT = 26
const NARROW_INDENT = 4
const NARROW_COLUMNS = 80

interface DoctorOptions extends DatabaseOptions {
  readonly longTransactionMs: number
  /** The age in minutes from which the oldest due message is a problem. */
  readonly oldestDue: number
  readonly publisher?: string
  readonly exchange?: string
  readonly webhookSecretFile?: string
  readonly allowHttp?: boolean
  readonly json?: boolean
}

const SIGNS: Record<Finding['verdict'], string> = {
  ok: paint('green', 'ok     '),
  note: paint('cyan', 'note   '),
  warning: paint('yellow', 'warning'),
  problem: paint('red', 'PROBLEM'),
}

/** `txbox doctor`. The exit code is 1 if there is a problem. */
export async function doctorCommand(options: DoctorOptions): Promise<void> {
  const findings = (await diagnose(options)).map((finding) => inCommand(finding, options))
  const problems = findings.filter(({ verdict }) => verdict === 'problem').length
  if (options.json === true) writeJson({ healthy: problems === 0, findings })
  else for (const finding of findings) write(lineOf(finding))
  if (problems > 0) process.exitCode = 1
}

async function diagnose(options: DoctorOptions): Promise<readonly Finding[]> {
  // The publisher is created first, because a wrong URL is a usage error.
  const publisher =
    options.publisher === undefined
      ? undefined
      : await createPublisher({ ...options, publisher: options.publisher })
  const connected = await connectDatabase(options, 'doctor')
  try {
    const { inspection } = connected
    const findings = [...(await inspection.diagnose(options))]
    if (connected.probeListen !== undefined) findings.push(await connected.probeListen())
    // The traffic can only be checked if the tables exist.
    const exist = findings.some(({ check, verdict }) => check === 'revision' && verdict === 'ok')
    if (exist && !findings.some(({ check }) => check === 'dropped')) {
      const traffic = await allowedFindings('traffic', async () => {
        const figures = await inspection.status()
        const consumers = await inspection.localConsumers(CONSUMERS)
        return [
          oldestDueFinding(figures.oldestDue, options.oldestDue),
          ...trafficFindings({
            figures,
            lag: await inspection.lag(),
            blocking: await inspection.blockingKeys(BLOCKING_KEYS),
            blocked: await inspection.blockedKeys(),
            all: await inspection.queues(QUEUES),
            stuck: await inspection.stuckKeys(STUCK_KEYS),
            consumers,
          }),
          ...consumerFindings(consumers),
        ]
      })
      findings.push(...traffic)
    }
    if (publisher !== undefined) findings.push(await publisherFinding(publisher))
    return findings
  } finally {
    await publisher?.close?.()
    await connected.close()
  }
}

function inCommand(finding: Finding, options: DoctorOptions): Finding {
  const { found, advice } = finding
  return {
    ...finding,
    found: atPlace(found, options),
    ...(advice !== undefined && { advice: atPlace(advice, options) }),
  }
}

async function publisherFinding(publisher: Publisher): Promise<Finding> {
  const check = 'publisher'
  if (publisher.check === undefined) {
    return { check, verdict: 'note', found: 'this publisher cannot be checked' }
  }
  try {
    await publisher.check({ signal: AbortSignal.timeout(PUBLISHER_TIMEOUT_MS) })
    return { check, verdict: 'ok', found: 'the broker accepts messages' }
  } catch (error) {
    return {
      check,
      verdict: 'problem',
      found: withoutSecrets(reasonOf(error)),
      advice: 'Nothing is published until this problem is fixed. Messages wait in the outbox.',
    }
  }
}

function lineOf({ check, verdict, found, advice }: Finding): string {
  const columns = terminalColumns()
  const narrow = columns < NARROW_COLUMNS
  const indent = narrow ? NARROW_INDENT : INDENT
  const margin = `\n${' '.repeat(indent)}`
  const indented = (text: string): string => wrap(visible(text), columns - indent).replaceAll('\n', margin)
  const name = narrow ? check + margin : `${check.padEnd(INDENT - 11)}  `
  const line = `${SIGNS[verdict]}  ${name}${indented(found)}`
  return advice === undefined ? line : `${line}${margin}${paint('dim', indented(advice))}`
}
