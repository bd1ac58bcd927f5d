import { createPool, type Pool } from 'mysql2/promise'
import type { Mortal, ProgramConfig } from './mortal.ts'

/** What goes to the server through a connection of mysql2's. */
interface Command {
  readonly sql?: unknown
  onResult?: ((...answer: unknown[]) => void) | undefined
}

/** A pool of mysql2's whose statements are steps. */
export function mortalMysqlPool(mortal: Mortal, config: ProgramConfig, max = 6): Pool {
  const pool = createPool({ uri: config.url, connectionLimit: max })
  pool.pool.on('connection', (connection) => {
    connection.on('error', () => undefined)
    const sending = connection as unknown as { addCommand(command: Command): unknown }
    const addCommand = sending.addCommand.bind(connection)
    sending.addCommand = (command) => {
      const phase = typeof command.sql === 'string' ? mortal.phaseOf(command.sql) : undefined
      if (phase === 'before') mortal.signal()
      const { onResult } = command
      if (phase === 'answered') {
        command.onResult = (...answer) => {
          mortal.signal()
          onResult?.(...answer)
        }
      }
      const sent = addCommand(command)
      if (phase === 'sent') mortal.signal()
      return sent
    }
  })
  return pool
}
