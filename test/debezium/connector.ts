import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync } from 'node:fs'
import { rm, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { freePort } from '../support/engines/servers/free-port.ts'

const PAGE = path.join(import.meta.dirname, '../../docs/debezium.md')

/** The settings of a connector as docs/debezium.md has them. */
export function settingsOfPage(connectorClass: string): ReadonlyMap<string, string> {
  const blocks = readFileSync(PAGE, 'utf8').matchAll(/^```properties\n(.*?)^```$/gms)
  const block = [...blocks].find(([, text]) => text?.includes(connectorClass))?.[1]
  if (block === undefined) throw new Error(`docs/debezium.md has no settings of ${connectorClass}.`)
  const lines = block.split('\n').filter((line) => line !== '' && !line.startsWith('#'))
  return new Map(lines.map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]))
}

/** A Kafka Connect with one Debezium connector, which keeps its offsets from one start to the next. */
export class Connector {
  readonly #program: string
  readonly #kafka: string
  readonly #folder = mkdtempSync(path.join(os.tmpdir(), 'txbox-test-debezium-'))
  #port = 0

  constructor(program: string, kafka: string) {
    this.#program = program
    this.#kafka = kafka
  }

  /** Resolves when the connector runs. */
  async start(settings: ReadonlyMap<string, string>): Promise<void> {
    if (this.#port === 0) this.#port = await freePort()
    const file = path.join(this.#folder, 'connector.properties')
    await writeFile(file, [...settings].map(([name, value]) => `${name}=${value}\n`).join(''))
    await this.#run('start', file, this.#kafka)
  }

  /** Ends Kafka Connect by SIGKILL. */
  async kill(): Promise<void> {
    await this.#run('kill')
  }

  /** Whether the connector has stored an offset. */
  async hasOffset(): Promise<boolean> {
    const answer = await fetch(`http://127.0.0.1:${this.#port}/connectors/txbox/offsets`)
    const { offsets } = (await answer.json()) as { offsets?: unknown[] }
    return (offsets ?? []).length > 0
  }

  async remove(): Promise<void> {
    await this.kill()
    await rm(this.#folder, { recursive: true })
  }

  async #run(...args: string[]): Promise<void> {
    const env = { ...process.env, DEBEZIUM_HOME: this.#folder, DEBEZIUM_PORT: String(this.#port) }
    await promisify(execFile)(this.#program, args, { env })
  }
}
