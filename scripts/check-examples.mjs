// Runs each program of examples/ on real servers, in its own database, and compares its output with the comment at its
// end. A missing server is named at the end; with CI=true it is a failure.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import path from 'node:path'
import { createDatabase as createMysqlDatabase } from '../test/support/engines/servers/mysql-databases.ts'
import { mysqlServer } from '../test/support/engines/servers/mysql-server.ts'
import { createDatabase as createPostgresDatabase } from '../test/support/engines/servers/postgres-databases.ts'
import { postgresServer } from '../test/support/engines/servers/postgres-server.ts'
import { rabbitmqServer } from '../test/support/engines/servers/rabbitmq-server.ts'
import { findServer } from '../test/support/engines/servers/server.ts'

const LONGEST_MS = 30_000
const folder = path.join(path.dirname(path.dirname(fileURLToPath(import.meta.url))), 'examples')
const found = new Map()

/** The server of a kind, which is searched for once. */
async function serverOf(kind, server) {
  if (!found.has(kind)) found.set(kind, await findServer(server))
  return found.get(kind)
}

async function run(file, env) {
  const child = spawn(process.execPath, [path.join(folder, file)], { env: { ...process.env, ...env } })
  let stdout = ''
  let stderr = ''
  child.stdout.setEncoding('utf8').on('data', (text) => (stdout += text))
  child.stderr.setEncoding('utf8').on('data', (text) => (stderr += text))
  const tooLong = setTimeout(() => child.kill('SIGKILL'), LONGEST_MS)
  const [code] = await once(child, 'close')
  clearTimeout(tooLong)
  return { code, stdout, stderr }
}

/** @returns the reason why the example could not run, or `undefined`. */
async function check(file) {
  const source = readFileSync(path.join(folder, file), 'utf8')
  const [, comment] = source.split('\n// prints:\n')
  if (comment === undefined) throw new Error(`examples/${file} does not end with '// prints:'.`)
  const expected = comment.replaceAll(/^\/\/ /gm, '')
  const onMysql = source.includes("'txbox/mysql'")
  const env = {}
  if (source.includes("'amqplib'")) {
    const rabbitmq = await serverOf('rabbitmq', rabbitmqServer)
    if (!('found' in rabbitmq)) return rabbitmq.missing
    env.AMQP_URL = rabbitmq.found.url
  }
  const search = await (onMysql ? serverOf('mysql', mysqlServer) : serverOf('postgres', postgresServer))
  if (!('found' in search)) return search.missing
  const database = await (onMysql ? createMysqlDatabase : createPostgresDatabase)(search.found.url)
  try {
    const began = Date.now()
    const { code, stdout, stderr } = await run(file, { ...env, DATABASE_URL: database.url })
    if (code !== 0 || stdout !== expected || stderr !== '') {
      throw new Error(
        `examples/${file} ended with ${code} and printed\n${stdout}${stderr}instead of\n${expected}`,
      )
    }
    console.log(`${((Date.now() - began) / 1000).toFixed(1).padStart(5)} s  ${file}`)
    return undefined
  } finally {
    await database.drop()
  }
}

const left = []
try {
  for (const file of readdirSync(folder).filter((name) => name.endsWith('.ts'))) {
    const missing = await check(file)
    if (missing !== undefined) left.push(`examples/${file} was not run: ${missing}`)
  }
  for (const line of left) console.log(line)
  if (left.length > 0 && process.env.CI === 'true') process.exitCode = 1
} catch (error) {
  console.error(error.message)
  process.exitCode = 1
} finally {
  for (const search of found.values()) if ('found' in search) await search.found.stop?.()
}
