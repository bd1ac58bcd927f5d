import type { Finding } from '@txbox/core'
import { connectDatabase, engineOf, type DatabaseOptions } from './connect-database.ts'
import { probeListen } from './listen-probe.ts'
import { paint, write, writeJson } from './terminal.ts'
import { trafficFindings } from './traffic-findings.ts'

const BLOCKING_KEYS = 10

interface DoctorOptions extends DatabaseOptions {
  readonly longTransactionMs: number
  readonly json?: boolean
}

const SIGNS: Record<Finding['verdict'], string> = {
  ok: paint('green', 'ok     '),
  note: paint('cyan', 'note   '),
  warning: paint('yellow', 'warning'),
  problem: paint('red', 'PROBLEM'),
}

/** `txbox doctor`: exit code 1 when there is a problem. */
export async function doctorCommand(options: DoctorOptions): Promise<void> {
  const findings = await look(options)
  const problems = findings.filter(({ verdict }) => verdict === 'problem').length
  if (options.json === true) writeJson({ healthy: problems === 0, findings })
  else for (const finding of findings) write(lineOf(finding))
  if (problems > 0) process.exitCode = 1
}

async function look(options: DoctorOptions): Promise<readonly Finding[]> {
  const connected = connectDatabase(options, 'doctor')
  try {
    const { inspection } = connected
    const findings = [...(await inspection.diagnose(options))]
    if (engineOf(options) === 'postgres') findings.push(await probeListen(options.database!))
    // Without tables there is no traffic to look at.
    if (findings.some(({ check, verdict }) => check === 'revision' && verdict === 'ok')) {
      findings.push(
        ...trafficFindings(await inspection.status(), await inspection.blockingKeys(BLOCKING_KEYS)),
      )
    }
    return findings
  } finally {
    await connected.close()
  }
}

function lineOf({ check, verdict, found, advice }: Finding): string {
  const line = `${SIGNS[verdict]}  ${check.padEnd(15)}  ${found}`
  return advice === undefined ? line : `${line}\n${' '.repeat(26)}${paint('dim', advice)}`
}
