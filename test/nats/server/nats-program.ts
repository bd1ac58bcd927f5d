import { mkdtempSync, writeFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import net from 'node:net'
import os from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, inject } from 'vitest'
import { freePort } from '../../support/engines/servers/free-port.ts'
import { KeptProcess } from '../../support/engines/servers/kept-process.ts'
import { until } from '../../support/worlds/until.ts'
import { NatsUnderTest } from '../nats-under-test.ts'

/** A NATS of this test file, which can be killed and frozen. Its data survive. */
export class NatsProgram {
  readonly #program = inject('servers')['nats-program']!
  readonly folder = mkdtempSync(path.join(os.tmpdir(), 'txbox-test-nats-'))
  readonly #settings: string
  readonly nats: NatsUnderTest
  #port = 0
  #process: KeptProcess | undefined

  /** @param settings lines of the server's configuration. */
  constructor(settings: (folder: string) => string = withJetstream) {
    this.#settings = settings(this.folder)
    this.nats = new NatsUnderTest(() => this.url)
  }

  get port(): number {
    return this.#port
  }

  get url(): string {
    return `nats://127.0.0.1:${this.#port}`
  }

  async start(): Promise<void> {
    if (this.#port === 0) this.#port = await freePort()
    const config = path.join(this.folder, 'server.conf')
    writeFileSync(config, `listen: "127.0.0.1:${this.#port}"\n${this.#settings}\n`)
    this.#process = await KeptProcess.start({
      command: [this.#program, '-c', config],
      folder: this.folder,
      log: path.join(this.folder, 'server.log'),
      endSignal: 'SIGKILL',
    })
    await until(
      () => this.#listens(),
      () => `the server listens: ${this.#process!.lastWords}`,
    )
  }

  /** Ends the server by SIGKILL. */
  async kill(): Promise<void> {
    await this.#process?.stop()
    this.#process = undefined
  }

  freeze(): void {
    process.kill(this.#process!.pid, 'SIGSTOP')
  }

  thaw(): void {
    process.kill(this.#process!.pid, 'SIGCONT')
  }

  async close(): Promise<void> {
    await this.nats.close()
    await this.kill()
    await rm(this.folder, { recursive: true, force: true })
  }

  #listens(): Promise<boolean> {
    return new Promise((resolve) => {
      const socket = net.connect(this.#port, '127.0.0.1')
      socket.once('data', () => {
        socket.destroy()
        resolve(true)
      })
      socket.once('error', () => resolve(false))
    })
  }
}

/** The configuration of a server with JetStream, which stores in this folder. */
export function withJetstream(folder: string, limits = ''): string {
  return `jetstream { store_dir: "${folder}/data"\n${limits}\n}`
}

/** A server for the tests of a file, and a connection to it with this login. */
export function useNatsProgram(settings?: (folder: string) => string, login: object = {}): NatsProgram {
  const program = new NatsProgram(settings)
  beforeAll(async () => {
    await program.start()
    await program.nats.connect(login)
  })
  afterAll(() => program.close())
  return program
}
