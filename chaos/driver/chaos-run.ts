import path from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import type { Violation } from '../check/violation.ts'
import { FAULTS } from '../faults/faults.ts'
import type { Surroundings } from '../faults/fault.ts'
import { stepAt, type Step } from '../faults/schedule.ts'
import { plantedPackages } from '../plants/planted-copy.ts'
import { chargeLogOf, httpLogOf } from '../workers/http-protocol.ts'
import { finish, type RunResult } from './finish.ts'
import { Fleet } from './fleet.ts'
import { HttpLog } from './http-log.ts'
import { HttpWaits } from './http-waits.ts'
import { Losses } from './losses.ts'
import { machineStretch } from './machine-load.ts'
import { LOCAL_KINDS } from './local-heads.ts'
import { Modes } from './modes.ts'
import { OnlineChecks } from './online-checks.ts'
import { relaySettings, type RelaySettings } from './relay-settings.ts'
import { Recorder } from './recorder.ts'
import { showsPlant, type RunOptions, type RunParts } from './run-parts.ts'
import { startStand, type Stand } from './stand.ts'
import { StandstillWatch } from './standstill-watch.ts'
import { Timeline } from './timeline.ts'

/** How much longer than a lease a shard may stand still, or an HTTP request may wait. */
const STANDSTILL_SPARE_MS = 5000
/**
 * A shard of a local consumer may change hands twice after one fault: to the process that is well, once the server has ended the
 * transactions of the frozen one, and back to the frozen one when it goes on. Parked messages of the outbox may be suspects, which are
 * tried one at a time while a message kills relays.
 */
const SLOW_SPARE_MS = 20_000
const SLOW_KINDS: readonly string[] = [...LOCAL_KINDS, 'parked']
const SHORTEST_QUIET_MS = 1500
/** Shards that move, but never all of them within a moment, do not keep the next fault away for longer than this. */
const LONGEST_QUIET_MS = 45_000
/** A shard is moving if its first message has been the same for less than this; the time is longer on an overloaded machine. */
const MOVING_MS = 700
const LOOK_INTERVAL_MS = 200
const WARM_UP_MS = 2000
const START_LIMIT_MS = 120_000

function spareMsOf(what: string): number {
  return SLOW_KINDS.some((kind) => what.startsWith(kind)) ? SLOW_SPARE_MS : STANDSTILL_SPARE_MS
}

/** One run, from the start of the servers to the verdicts. */
export async function runChaos(options: RunOptions): Promise<RunResult> {
  const packages = options.plant && plantedPackages(options.plant)
  try {
    const stand = await startStand(options.database)
    try {
      return await new ChaosRun(options, stand, packages?.folder).run()
    } finally {
      await stand.close(options.keep)
    }
  } finally {
    packages?.remove()
  }
}

class ChaosRun implements RunParts {
  readonly options: RunOptions
  readonly stand: Stand
  readonly settings: RelaySettings
  readonly killLog: string
  readonly fleet: Fleet
  readonly recorder: Recorder
  readonly losses = new Losses()
  readonly modes: Modes
  readonly online: OnlineChecks
  readonly httpLog: HttpLog
  readonly chargeLog: string
  readonly watch: StandstillWatch
  readonly timeline: Timeline
  readonly relayPoison = new Set<string>()
  readonly standstills: Violation[] = []
  maxStretch = 1
  #steps = 0

  constructor(options: RunOptions, stand: Stand, packages: string | undefined) {
    const { database: engine, seed, plant } = options
    const { folder, database, broker } = stand
    this.options = options
    this.stand = stand
    this.settings = relaySettings(seed, plant?.settings, machineStretch())
    this.killLog = path.join(folder, 'kills.log')
    const base = {
      engine,
      seed,
      ...this.settings,
      httpFolder: folder,
      killLog: this.killLog,
      databaseUrl: database.url,
      brokerUrl: broker.url,
      workerPlant: plant?.worker,
      localWorkMs: plant?.localWorkMs ?? 0,
    }
    this.fleet = new Fleet(base, folder, packages)
    this.recorder = new Recorder(() => broker.directUrl, path.join(folder, 'record.jsonl'), seed)
    this.modes = new Modes(this.fleet)
    const url = (): string => database.directUrl()
    this.httpLog = new HttpLog(httpLogOf(folder))
    this.chargeLog = chargeLogOf(folder)
    this.watch = new StandstillWatch(engine, url, this.relayPoison, new HttpWaits(this.httpLog))
    this.online = new OnlineChecks({
      engine,
      url,
      recorder: this.recorder,
      httpLog: this.httpLog,
      chargeLog: this.chargeLog,
      fleet: this.fleet,
      killLog: this.killLog,
      losses: this.losses,
      leaseMs: this.settings.leaseMs,
      stuckKeys: () => this.watch.stuckKeys,
    })
    this.timeline = new Timeline(options.onEvent)
  }

  async run(): Promise<RunResult> {
    const sampling = setInterval(() => this.#sample(), 1000)
    try {
      await this.recorder.start()
      // Producers publish before the others have started.
      this.watch.isWell = false
      this.fleet.start()
      this.watch.start()
      await this.fleet.allReady(START_LIMIT_MS)
      this.watch.isWell = true
      this.timeline.now('phase', 'warm-up', 'all workers are at work')
      await pause(WARM_UP_MS)
      const first = await this.#disturb()
      return await finish(this, first, this.#steps)
    } finally {
      clearInterval(sampling)
      await this.watch.close()
      await this.fleet.killAll()
      await this.recorder.close()
    }
  }

  /** Runs steps until the time is over or a violation is found. */
  async #disturb(): Promise<Violation | undefined> {
    const { minutes, seed, faults, without, plant, signal } = this.options
    const until = performance.now() + minutes * 60_000
    const reported = new Set<string>()
    while (performance.now() < until && !signal.aborted) {
      this.#steps += 1
      await this.#inject(stepAt(seed, this.#steps, faults, without))
      const violations = await this.#quiet()
      for (const { check, text } of violations) {
        // A violation that stays in the tables is found again by each look.
        if (!reported.has(text)) this.timeline.now('violation', check, text)
        reported.add(text)
      }
      const symptom = violations.find((violation) => showsPlant(plant, violation))
      if (symptom !== undefined) return symptom
    }
    return undefined
  }

  async #inject({ number, faults }: Step): Promise<void> {
    if (faults.some(({ name }) => FAULTS[name].harms !== 'nothing')) this.watch.isWell = false
    await Promise.all(
      faults.map(async ({ name, draw }) => {
        const fromMs = Date.now()
        const text = await FAULTS[name].inject(this.#surroundings, draw)
        this.timeline.add({ kind: 'fault', name, text, fromMs, toMs: Date.now(), step: number })
      }),
    )
    this.watch.isWell = true
  }

  /** Waits until every shard moves again, but not for too long, and runs the online checks. */
  async #quiet(): Promise<readonly Violation[]> {
    const isSought = (violation: Violation): boolean => showsPlant(this.options.plant, violation)
    const from = performance.now()
    for (;;) {
      await pause(LOOK_INTERVAL_MS)
      if (this.options.signal.aborted) return []
      const standing = this.watch.standing()
      const [longest] = standing
      const stretch = machineStretch()
      this.maxStretch = Math.max(this.maxStretch, stretch)
      // A message that kills relays again and again keeps its shard from becoming quiet.
      const killed = this.online.killed()
      if (killed !== undefined && isSought(killed)) return [killed]
      const tooLong = standing.find(
        ({ ms, what }) => ms > (this.settings.leaseMs + spareMsOf(what)) * stretch,
      )
      if (tooLong !== undefined) {
        const { check, text } = tooLong
        this.standstills.push({ check, text })
        // The planted bug may be the reason for it.
        return [...(await this.online.look(isSought)), { check, text }]
      }
      const quietMs = performance.now() - from
      const isMoving = (longest?.ms ?? 0) <= MOVING_MS * stretch || quietMs > LONGEST_QUIET_MS * stretch
      if (quietMs < SHORTEST_QUIET_MS || !isMoving) continue
      await this.online.lookAtResources()
      return this.online.look(isSought)
    }
  }

  async #failOver(): Promise<void> {
    const { database } = this.stand
    this.losses.failovers.push(Date.now())
    const { formerUrl, discardFormer } = await database.failOver()
    const lostEffects = await this.losses.compare(formerUrl, database.directUrl())
    await discardFormer()
    this.online.forget()
    // As an operator does it: what had been acknowledged, and whose effect is lost, is delivered again. Not awaited, since
    // the broker may be away as well.
    void this.recorder.redeliver(lostEffects)
  }

  get #surroundings(): Surroundings {
    const { database, broker } = this.stand
    return {
      engine: this.options.database,
      database,
      broker,
      fleet: this.fleet,
      recorder: this.recorder,
      leaseMs: this.settings.leaseMs,
      relayPoison: this.relayPoison,
      failOver: () => this.#failOver(),
      behave: (mode) => this.modes.behave(mode),
    }
  }

  #sample(): void {
    this.timeline.samples.push({
      atMs: Date.now(),
      published: this.recorder.copies.length,
      processed: this.fleet.total('processed'),
    })
  }
}
