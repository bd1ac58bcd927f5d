import { accessSync } from 'node:fs'
import { createConnection, type RowDataPacket } from 'mysql2/promise'
import { until } from '../../worlds/until.ts'
import { freePort } from './free-port.ts'
import { startServerProgram } from './mysql-program.ts'
import { AddressUnusableError, firstLine, type ServerKind, type ServerSource } from './server.ts'

const NODES = 2

/** Where packages install the library that makes a cluster of MariaDB servers. */
const PROVIDERS = [
  '/usr/lib/galera/libgalera_smm.so',
  '/usr/lib/libgalera_smm.so',
  '/usr/lib64/galera-4/libgalera_smm.so',
]

const environment: ServerSource = {
  name: 'TXBOX_TEST_GALERA_URLS',
  async find() {
    const url = process.env['TXBOX_TEST_GALERA_URLS']
    if (url === undefined || url === '') return undefined
    try {
      for (const node of url.split(',')) await ready(node)
    } catch (error) {
      throw new AddressUnusableError(
        `A node that TXBOX_TEST_GALERA_URLS names cannot be used: ${firstLine(error)}`,
        { cause: error },
      )
    }
    return { url, description: `a cluster of ${url.split(',').length} nodes (from TXBOX_TEST_GALERA_URLS)` }
  },
}

const program: ServerSource = {
  name: 'mariadbd and the Galera library on this machine',
  async find() {
    const provider = PROVIDERS.find(isThere)
    if (provider === undefined) return undefined
    const groupPorts = await Promise.all(Array.from({ length: NODES }, () => freePort()))
    const nodes: { url: string; stop: () => Promise<void> }[] = []
    const stop = async (): Promise<void> => {
      // A cluster is shut down node by node.
      for (const node of nodes.toReversed()) await node.stop()
    }
    try {
      for (const port of groupPorts) {
        const node = await startServerProgram('mariadb', await settings(provider, groupPorts, port))
        if (node === undefined) return undefined
        nodes.push(node)
        await ready(node.url)
      }
    } catch (error) {
      await stop()
      throw error
    }
    return {
      url: nodes.map((node) => node.url).join(','),
      description: `${NODES} nodes (started with ${provider})`,
      stop,
    }
  },
}

/** The `url` contains the addresses of all nodes, separated by commas. */
export const galeraServer: ServerKind = {
  title: 'Galera',
  sources: [environment, program],
  remedy: 'Install mariadb-server, galera-4 and rsync, or set TXBOX_TEST_GALERA_URLS.',
}

async function settings(provider: string, groupPorts: readonly number[], port: number): Promise<string[]> {
  const first = port === groupPorts[0]
  return [
    '--max-connections=200',
    '--innodb-flush-log-at-trx-commit=2',
    '--innodb-buffer-pool-size=64M',
    '--binlog-format=ROW',
    '--innodb-autoinc-lock-mode=2',
    '--wsrep-on=ON',
    `--wsrep-provider=${provider}`,
    `--wsrep-cluster-name=txbox-${groupPorts[0]}`,
    `--wsrep-cluster-address=gcomm://${first ? '' : groupPorts.map((at) => `127.0.0.1:${at}`).join(',')}`,
    `--wsrep-node-address=127.0.0.1:${port}`,
    '--wsrep-sst-method=rsync',
    `--wsrep-sst-receive-address=127.0.0.1:${await freePort()}`,
    `--wsrep-provider-options=gmcast.listen_addr=tcp://127.0.0.1:${port};ist.recv_addr=127.0.0.1:${await freePort()};gcache.size=16M`,
  ]
}

/** Whether the node has joined the cluster and accepts statements. */
async function ready(url: string): Promise<void> {
  const connection = await createConnection({ uri: url, connectTimeout: 5000 })
  try {
    await until(
      async () => {
        const [rows] = await connection.query<RowDataPacket[]>("show status like 'wsrep_ready'")
        return rows[0]?.['Value'] === 'ON'
      },
      () => `the node at ${new URL(url).host} is part of a Galera cluster`,
    )
  } finally {
    await connection.end().catch(() => undefined)
  }
}

function isThere(file: string): boolean {
  try {
    accessSync(file)
    return true
  } catch {
    return false
  }
}
