import path from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { CALM, type Mode, type WorkerConfig, type WorkerKind } from '../workers/worker-protocol.ts'
import { WorkerProcess } from './worker-process.ts'

const SLOTS: readonly (readonly [WorkerKind, string])[] = [
  ['producer', 'producer-1'],
  ['producer', 'producer-2'],
  ['relay', 'relay-1'],
  ['relay', 'relay-2'],
  ['consumer', 'consumer-1'],
  ['consumer', 'consumer-2'],
  ['queue-worker', 'queue-worker-1'],
  ['queue-worker', 'queue-worker-2'],
  ['local-worker', 'local-worker-1'],
  ['local-worker', 'local-worker-2'],
  ['http-service', 'http-service-1'],
  ['http-service', 'http-service-2'],
  ['http-client', 'http-client-1'],
  ['collector', 'collector-1'],
]

const NOT_DRAWN: ReadonlySet<WorkerKind> = new Set(['local-worker', 'http-service', 'http-client'])

export type BaseConfig = Omit<WorkerConfig, 'kind' | 'slot' | 'incarnation'>

export interface SlotFigures {
  /** Sums over all processes of the slot. */
  readonly counts: Record<string, number>
  readonly errors: Record<string, number>
  mostRssBytes: number
  starts: number
}

/** Keeps one process running in each slot: a process that has ended is replaced at once, until the fleet ends. */
export class Fleet {
  readonly figures = new Map<string, SlotFigures>()
  /** When a relay's process ended in another way than by SIGTERM, in ms since 1970. */
  readonly relayDeaths: number[] = []
  /** Unexpected ends of processes: with an exit code other than 0. */
  readonly crashes: string[] = []
  readonly #base: BaseConfig
  readonly #folder: string
  readonly #plantedPackages: string | undefined
  readonly #processes = new Map<string, WorkerProcess>()
  readonly #earlier = new Map<string, Readonly<Record<string, number>>>()
  #mode: Mode = CALM
  #isEnding = false

  constructor(base: BaseConfig, folder: string, plantedPackages: string | undefined) {
    this.#base = base
    this.#folder = folder
    this.#plantedPackages = plantedPackages
  }

  start(): void {
    for (const [kind, slot] of SLOTS) this.#start(kind, slot)
  }

  /** @throws {Error} if a worker does not start in time. */
  async allReady(timeoutMs: number): Promise<void> {
    const until = performance.now() + timeoutMs
    for (const slot of this.slots) {
      while (!this.process(slot).isReady) {
        if (performance.now() > until)
          throw new Error(`The worker ${slot} has not come to work; see ${slot}.log.`)
        await pause(50)
      }
    }
  }

  get mode(): Mode {
    return this.#mode
  }

  set mode(mode: Mode) {
    this.#mode = mode
    for (const process of this.#processes.values()) process.say({ what: 'mode', mode })
  }

  slotsOf(kind: WorkerKind): readonly string[] {
    return SLOTS.flatMap(([other, slot]) => (other === kind ? [slot] : []))
  }

  get slots(): readonly string[] {
    return SLOTS.map(([, slot]) => slot)
  }

  /**
   * The slots from which process faults draw. Those of local consumers and of HTTP services are hit beside another one: see `beside`.
   * The HTTP client is not hit, as it knows which requests were answered.
   */
  get drawnSlots(): readonly string[] {
    return SLOTS.flatMap(([kind, slot]) => (NOT_DRAWN.has(kind) ? [] : [slot]))
  }

  process(slot: string): WorkerProcess {
    const found = this.#processes.get(slot)
    if (found === undefined) throw new Error(`No process runs in the slot ${slot}.`)
    return found
  }

  /** The sum of a count over all slots. */
  total(name: string): number {
    return [...this.figures.values()].reduce((sum, { counts }) => sum + (counts[name] ?? 0), 0)
  }

  /** @returns the processes that did not end by themselves in time. */
  async end(kind: WorkerKind, timeoutMs: number): Promise<readonly string[]> {
    const slots = this.slotsOf(kind)
    const processes = slots.map((slot) => this.#processes.get(slot)!)
    for (const slot of slots) this.#processes.delete(slot)
    const ended = await Promise.all(processes.map((process) => process.stop(timeoutMs)))
    return slots.filter((_, index) => ended[index] !== true)
  }

  async killAll(): Promise<void> {
    this.#isEnding = true
    const processes = [...this.#processes.values()]
    for (const process of processes) process.signal('SIGKILL')
    await Promise.all(processes.map((process) => process.ended))
  }

  #start(kind: WorkerKind, slot: string): void {
    const figures = this.figures.get(slot) ?? { counts: {}, errors: {}, mostRssBytes: 0, starts: 0 }
    this.figures.set(slot, figures)
    figures.starts += 1
    this.#earlier.set(slot, { ...figures.counts })
    const config = { ...this.#base, kind, slot, incarnation: figures.starts }
    const output = path.join(this.#folder, `${slot}.log`)
    const process = new WorkerProcess(config, output, this.#plantedPackages, {
      ready: (process) => process.say({ what: 'mode', mode: this.#mode }),
      report: (process, { counts, errors, rssBytes }) => {
        if (this.#processes.get(slot) !== process && !this.#isEnding) return
        const earlier = this.#earlier.get(slot) ?? {}
        for (const [name, count] of Object.entries(counts)) {
          figures.counts[name] = (earlier[name] ?? 0) + count
        }
        for (const [text, count] of Object.entries(errors)) {
          figures.errors[text] = (figures.errors[text] ?? 0) + count
        }
        figures.mostRssBytes = Math.max(figures.mostRssBytes, rssBytes)
      },
      exit: (process) => {
        if (process.end !== 0 && kind === 'relay') this.relayDeaths.push(Date.now())
        if (typeof process.end === 'number' && process.end !== 0 && !this.#isEnding) {
          this.crashes.push(`${slot}.${config.incarnation} ended with code ${process.end}; see ${slot}.log`)
        }
        if (this.#processes.get(slot) === process && !this.#isEnding) this.#start(kind, slot)
      },
    })
    this.#processes.set(slot, process)
  }
}
