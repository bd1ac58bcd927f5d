/* MySQL and MariaDB have different ways to ask whether a transaction is open; PostgreSQL has one. */
import type { Session } from '@txbox/core'
import type { RowStore } from '@txbox/core/ports'
import type { Resolver } from '@txbox/sql/transactions'
import { columns } from '../connection/columns.ts'
import type { ServerTraits } from '../connection/server.ts'
import { NOT_MARIADB, sessionStatements } from '../connection/session-statements.ts'
import { bind, execute, type MysqlSession } from '../connection/session.ts'

/**
 * Returns a way to bind that asks for no table of txbox. For libraries that hide the state of their transactions, the server is
 * asked once which product it is.
 *
 * @param known the traits of the server, once they are known.
 */
export function bindAlone(resolver: Resolver, known: { readonly server?: ServerTraits }): RowStore['bind'] {
  let engine: ServerTraits['engine'] | undefined
  return async (handle) => {
    // The statements of the row store depend on no other trait.
    const traits = known.server ?? (engine === undefined ? undefined : ({ engine } as ServerTraits))
    const session = await bind(resolver, handle, traits)
    if (traits === undefined && session.driver.hidesState === true) engine = await engineBehind(session)
    return session
  }
}

async function engineBehind(session: Session & MysqlSession): Promise<ServerTraits['engine']> {
  const doing = 'asking which product the server is'
  const { rows } = await execute(session, doing, sessionStatements.mariadbState, [])
  return columns.text(rows[0], 'answer') === NOT_MARIADB ? 'mysql' : 'mariadb'
}
