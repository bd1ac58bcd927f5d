import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, inject } from 'vitest'
import { freePort } from '../../support/engines/servers/free-port.ts'
import { KafkaUnderTest } from '../kafka-under-test.ts'

/** A Kafka of this test file, which can be killed. */
export class KafkaProgram {
  readonly #program = inject('servers')['kafka-program']!
  readonly #folder = mkdtempSync(path.join(os.tmpdir(), 'txbox-test-kafka-'))
  #port = 0
  #kafka: KafkaUnderTest | undefined

  async start(): Promise<void> {
    this.#port = await freePort()
    await this.#run('start')
    this.#kafka = new KafkaUnderTest(this.addressOf('plain'))
  }

  get kafka(): KafkaUnderTest {
    return this.#kafka!
  }

  /** The address at which clients need no login, need one, or need one over TLS. */
  addressOf(listener: 'plain' | 'login' | 'tls'): string {
    return `127.0.0.1:${this.#port + { plain: 0, login: 1, tls: 2 }[listener]}`
  }

  get certificate(): Buffer {
    return readFileSync(path.join(this.#folder, `data-${this.#port}`, 'cert.pem'))
  }

  /** Ends the broker by SIGKILL. */
  kill(): Promise<void> {
    return this.#run('kill')
  }

  /** Stops the broker, if it runs, and starts it again with its data. */
  restart(): Promise<void> {
    return this.#run('restart')
  }

  freeze(): Promise<void> {
    return this.#run('freeze')
  }

  thaw(): Promise<void> {
    return this.#run('thaw')
  }

  async close(): Promise<void> {
    await this.#kafka?.close()
    await this.#run('kill')
    await rm(this.#folder, { recursive: true })
  }

  async #run(verb: string): Promise<void> {
    const env = { ...process.env, KAFKA_HOME: this.#folder }
    await promisify(execFile)(this.#program, [verb, String(this.#port)], { env })
  }
}

/** A broker for the tests of a file. */
export function useKafkaProgram(): KafkaProgram {
  const program = new KafkaProgram()
  beforeAll(() => program.start())
  afterAll(() => program.close())
  return program
}
