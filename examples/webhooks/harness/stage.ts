import { randomBytes } from 'node:crypto'
import { createReceiverTables } from '../services/receiver-tables.ts'
import { createSecondServiceTables } from '../services/second-service-tables.ts'
import { openDatabase, type ServiceDatabase } from '../services/service-database.ts'
import type { Counts } from './caught-up.ts'
import { openDatabases } from './demo-databases.ts'
import type { DatabaseKind } from './database-server.ts'
import { DeliveryLog } from './delivery-log.ts'
import { chooseEventCarrier } from './event-carrier.ts'
import { freePort } from './free-port.ts'
import { numbersOf, type Parties } from './parties.ts'
import { ServiceProcess } from './service-process.ts'

/** The parts of a run: databases with tables, a transport for the events, and three running services. */
export interface Stage {
  /** A description of the servers, for people. */
  readonly description: readonly string[]
  readonly parties: Parties
  readonly services: readonly ServiceProcess[]
  readonly receiver: { readonly url: string; readonly secret: string }
  readonly log: DeliveryLog
}

/** @param cleanup receives everything that must be stopped and removed in the end, even if the setup fails halfway. */
export async function setStage(kind: DatabaseKind, cleanup: AsyncDisposableStack): Promise<Stage> {
  const databases = await openDatabases(kind)
  cleanup.defer(databases.remove)
  const carrier = await chooseEventCarrier()
  cleanup.defer(() => carrier.remove())

  const { urls } = databases
  const open = <T>(url: string): ServiceDatabase<T> =>
    cleanup.adopt(openDatabase<T>(url, 2), (database) => database.close())
  const parties: Parties = {
    sender: open(urls.sender),
    receiver: open(urls.receiver),
    secondService: open(urls.second_service),
  }
  const log = new DeliveryLog(parties.sender.db)
  await log.createTable()
  await createReceiverTables(parties.receiver)
  await createSecondServiceTables(parties.secondService)

  const port = await freePort()
  const secret = randomBytes(16).toString('hex')
  const services = [
    new ServiceProcess('receiver', 'receiver.ts', {
      DATABASE_URL: urls.receiver,
      PORT: String(port),
      WEBHOOK_SECRET: secret,
    }),
    new ServiceProcess('relay', 'relay.ts', { DATABASE_URL: urls.receiver, ...carrier.settings }),
    new ServiceProcess('second service', 'second-service.ts', {
      DATABASE_URL: urls.second_service,
      ...carrier.settings,
    }),
  ]
  for (const service of services) {
    cleanup.defer(() => service.stop())
    service.start()
  }
  return {
    description: [`Databases: ${databases.description}.`, `Events go over ${carrier.description}.`],
    parties,
    services,
    receiver: { url: `http://127.0.0.1:${port}/webhooks`, secret },
    log,
  }
}

/** The progress of the services, read from their databases. */
export async function lookAt({ parties }: Stage, acknowledged: number): Promise<Counts> {
  const { receiver, secondService } = parties
  const [at, second] = await Promise.all([
    numbersOf(
      receiver.db,
      `select (select count(*) from history) as effects, (select count(*) from ${receiver.outboxTable}) as backlog`,
    ),
    numbersOf(
      secondService.db,
      'select (select count(*) from arrivals) as arrivals, (select count(*) from feed) as followed',
    ),
  ])
  return {
    acknowledged,
    effects: at('effects'),
    backlog: at('backlog'),
    arrivals: second('arrivals'),
    followed: second('followed'),
  }
}
