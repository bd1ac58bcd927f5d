import { serverPrograms } from '../test/support/engines/servers/server-programs.ts'
import type { Engine } from './database/engine.ts'

/** Lists the programs that a run on the database needs and this machine lacks, with what to install: one line each. */
export async function missingPrograms(engine: Engine): Promise<readonly string[]> {
  const lines: string[] = []
  for (const name of [`${engine}-program`, 'rabbitmq-program']) {
    const kind = serverPrograms[name]!
    const found = await Promise.all(kind.sources.map((source) => source.find()))
    if (found.every((one) => one === undefined))
      lines.push(`${kind.title} is not on this machine. ${kind.remedy}`)
  }
  return lines
}
