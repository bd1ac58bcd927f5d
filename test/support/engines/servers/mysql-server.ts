import os from 'node:os'
import { createConnection, type RowDataPacket } from 'mysql2/promise'
import { startContainer } from './container.ts'
import { startServerProgram } from './mysql-program.ts'
import { addressInEnvironment, type ServerKind, type ServerSource } from './server.ts'

type Engine = 'mysql' | 'mariadb'

const TITLES: Record<Engine, string> = { mysql: 'MySQL', mariadb: 'MariaDB' }

/** More connections than the two workers and the tests with 20 concurrent deliveries need; no data must survive a power cut. */
const SETTINGS = ['--max-connections=200', '--innodb-flush-log-at-trx-commit=2', '--skip-log-bin']

function listening(engine: Engine): ServerSource {
  return {
    name: 'a server at 127.0.0.1:3306',
    async find() {
      let refusal: unknown
      for (const user of new Set(['root', os.userInfo().username])) {
        const password = process.env['MYSQL_PWD']
        const login = password === undefined ? user : `${user}:${encodeURIComponent(password)}`
        const url = `mysql://${login}@127.0.0.1:3306/`
        try {
          return { url, description: `${await describe(engine, url)} (already listening, user ${user})` }
        } catch (error) {
          refusal = error
        }
      }
      throw refusal
    },
  }
}

function docker(engine: Engine): ServerSource {
  return {
    name: 'Docker',
    async find() {
      const image =
        process.env[`TXBOX_TEST_${engine.toUpperCase()}_IMAGE`] ??
        (engine === 'mysql' ? 'mysql:9' : 'mariadb:11')
      const container = await startContainer({
        image,
        port: 3306,
        environment: { MYSQL_ROOT_PASSWORD: 'txbox', MARIADB_ROOT_PASSWORD: 'txbox' },
        command: SETTINGS,
        // Port 0 is for initialization, and 33060 for MySQL's other protocol. MariaDB reports the port one line after "ready".
        ready: { log: /\bport: 3306\b/, times: 1 },
      })
      if (container === undefined) return undefined
      const url = `mysql://root:txbox@${container.address}/`
      return {
        url,
        description: `${await describe(engine, url)} (Docker image ${image})`,
        stop: container.stop,
      }
    },
  }
}

function program(engine: Engine): ServerSource {
  return {
    name: 'a server program on this machine',
    async find() {
      const started = await startServerProgram(engine, SETTINGS)
      if (started === undefined) return undefined
      const { url, file, stop } = started
      return { url, description: `${await describe(engine, url)} (started from ${file})`, stop }
    },
  }
}

function kindOf(engine: Engine): ServerKind {
  const variable = `TXBOX_TEST_${engine.toUpperCase()}_URL`
  return {
    title: TITLES[engine],
    sources: [
      addressInEnvironment(variable, (url) => describe(engine, url)),
      listening(engine),
      docker(engine),
      program(engine),
    ],
    remedy: `Install ${engine === 'mysql' ? 'mysql-server' : 'mariadb-server'}, or start Docker, or set ${variable}.`,
  }
}

export const mysqlServer = kindOf('mysql')
export const mariadbServer = kindOf('mariadb')

/** Checks that the server answers and has the requested engine. @returns a description with its address. */
async function describe(engine: Engine, url: string): Promise<string> {
  const connection = await createConnection({ uri: url, connectTimeout: 5000 })
  try {
    const [rows] = await connection.query<RowDataPacket[]>('select version() as version')
    const version = String(rows[0]?.['version'])
    const found: Engine = /mariadb/i.test(version) ? 'mariadb' : 'mysql'
    if (found !== engine) throw new Error(`that is ${TITLES[found]} ${version}`)
    const { hostname, port } = new URL(url)
    return `${TITLES[engine]} ${version} at ${hostname}:${port === '' ? 3306 : port}`
  } finally {
    await connection.end().catch(() => undefined)
  }
}
