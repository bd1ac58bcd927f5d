import { globSync } from 'node:fs'
import path from 'node:path'
import { isProgram } from './is-program.ts'

/** The programs of RabbitMQ, and of Erlang, on which RabbitMQ runs. */
export interface RabbitmqProgram {
  readonly server: string
  readonly control: string
  /** Erlang's name server. */
  readonly epmd: string
}

/**
 * Finds `rabbitmq-server`: the file that `TXBOX_RABBITMQ_SERVER` names, the file where packages install it, or a file on the
 * path. The scripts of Debian and Red Hat on the path change the user, so the program that they start is used instead.
 */
export function findRabbitmqProgram(): RabbitmqProgram | undefined {
  const onPath = (process.env['PATH'] ?? '').split(path.delimiter)
  const installed = ['/usr/lib/rabbitmq/bin', '/opt/rabbitmq/sbin', ...onPath]
  const named = process.env['TXBOX_RABBITMQ_SERVER']
  const servers =
    named !== undefined && named !== ''
      ? [named]
      : installed.map((folder) => path.join(folder, 'rabbitmq-server'))
  const server = servers.find(isProgram)
  const erlang = ['/usr/lib/erlang/erts-*/bin/epmd', '/usr/local/lib/erlang/erts-*/bin/epmd']
  const epmd = [...onPath.map((folder) => path.join(folder, 'epmd')), ...globSync(erlang)].find(isProgram)
  if (server === undefined || epmd === undefined) return undefined
  const control = path.join(path.dirname(server), 'rabbitmqctl')
  return isProgram(control) ? { server, control, epmd } : undefined
}
