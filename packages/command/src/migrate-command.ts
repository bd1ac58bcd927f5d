import { connectDatabase, migrationSql, type DatabaseOptions } from './connect-database.ts'
import { write, writeJson } from './terminal.ts'

interface MigrateOptions extends DatabaseOptions {
  readonly print?: boolean
  readonly dryRun?: boolean
  readonly json?: boolean
}

export async function migrateCommand(options: MigrateOptions): Promise<void> {
  if (options.print === true) {
    for (const { sql } of migrationSql(options)) write(sql)
    return
  }
  const connected = await connectDatabase(options, 'migrate')
  const json = options.json === true
  try {
    if (options.dryRun === true) {
      const pending = (await connected.pending()).map(({ name }) => name)
      if (json) writeJson({ pending })
      else write(pending.length === 0 ? 'The tables are up to date.' : `Would apply ${pending.join(', ')}.`)
      return
    }
    const { applied } = await connected.migrate()
    if (json) writeJson({ applied })
    else write(applied.length === 0 ? 'The tables are up to date.' : `Applied ${applied.join(', ')}.`)
  } finally {
    await connected.close()
  }
}
