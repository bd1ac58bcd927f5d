import { existsSync, readFileSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import type { LocalConsumerConfig, LocalLogEntry } from '../../crash/programs/local-consumer.ts'
import { randomFrom } from '../worlds/random.ts'
import { Program } from '../worlds/program.ts'
import type { LocalUnderTest } from './local-under-test.ts'
import type { Root } from '../engines/target.ts'

const KEYS = 24
/** Longer than the leases of the processes. */
const FREEZE_MS = 1500
const EXPIRE_EVERY_MS = 300

/** A message whose transaction has committed. */
interface SentMessage {
  readonly id: string
  readonly key: string | undefined
  /** Times on the monotonic clock: before the call that stored the message, and after the commit. */
  readonly before: number
  readonly after: number
  readonly transaction: object
}

/**
 * Publishers that commit late or roll back, and processes with local consumers whose handlers are slow, fail, or take too long,
 * that are killed or frozen again and again, and that lose their leases.
 */
export class LocalStorm {
  readonly sent: SentMessage[] = []
  readonly rolledBack: string[] = []
  kills = 0
  freezes = 0
  readonly #subject: LocalUnderTest
  readonly #config: LocalConsumerConfig
  readonly #seed: number
  readonly #programs: Program[] = []
  #started = 0
  #publishing = true

  constructor(subject: LocalUnderTest, config: LocalConsumerConfig, seed: number) {
    this.#subject = subject
    this.#config = config
    this.#seed = seed
  }

  async run(
    root: Root,
    { messages, processes, killEveryMs }: { messages: number; processes: number; killEveryMs: number },
    /** Lets all leases expire, as if their owners had not renewed them. */
    expireLeases: () => Promise<void>,
  ): Promise<void> {
    for (let n = 0; n < processes; n += 1) this.#start()
    const publishers = [1, 2, 3].map((n) =>
      this.#publish(root, randomFrom(this.#seed + n), Math.ceil(messages / 3)),
    )
    const killing = this.#kill(randomFrom(this.#seed + 50), killEveryMs)
    const losing = [this.#expire(expireLeases), this.#freeze(randomFrom(this.#seed + 60))]
    await Promise.all(publishers)
    this.#publishing = false
    await Promise.all([killing, ...losing])
    await this.#subject.settled('billing', 60_000)
    await Promise.all(this.#programs.map((program) => program.kill()))
  }

  /** Compares what was handled with what was published. */
  async violations(): Promise<string[]> {
    const violations: string[] = []
    const handled = await this.#subject.effectsInOrder()
    const position = new Map(handled.map((id, at) => [id, at]))
    for (const [at, id] of handled.entries()) if (position.get(id) !== at) violations.push(`doubled: ${id}`)
    const known = new Set(this.sent.map(({ id }) => id))
    for (const id of handled) if (!known.has(id)) violations.push(`never committed: ${id}`)
    for (const { id, key } of this.sent) if (!position.has(id)) violations.push(`lost: ${id} of ${key}`)
    for (const earlier of this.sent) {
      for (const later of this.sent) {
        if (earlier.key === undefined || earlier.key !== later.key || !isBefore(earlier, later)) continue
        if (position.get(earlier.id)! > position.get(later.id)!) {
          violations.push(`out of order: ${later.id} before ${earlier.id} of ${earlier.key}`)
        }
      }
    }
    return [...violations, ...this.#twoAtOnce()]
  }

  /** How many handlers began. */
  begun(): number {
    return this.#entries().filter(({ what }) => what === 'begin').length
  }

  /** Handlers of one key that ran in two processes, or twice in one, at the same time. A killed process ends its handlers. */
  #twoAtOnce(): string[] {
    const violations: string[] = []
    const running = new Map<string, LocalLogEntry[]>()
    const ends = new Map<number, bigint>(this.#ends)
    const entries = this.#entries().toSorted((one, other) => (BigInt(one.at) < BigInt(other.at) ? -1 : 1))
    for (const entry of entries) {
      const others = (running.get(entry.key) ?? []).filter(
        ({ pid, id }) =>
          !((ends.get(pid) ?? BigInt(entry.at)) < BigInt(entry.at)) &&
          !(pid === entry.pid && id === entry.id),
      )
      if (entry.what === 'end') {
        running.set(entry.key, others)
        continue
      }
      for (const other of others) {
        violations.push(
          `two at once of ${entry.key}: ${other.id} of ${other.pid} and ${entry.id} of ${entry.pid}`,
        )
      }
      running.set(entry.key, [...others, entry])
    }
    return violations
  }

  readonly #ends = new Map<number, bigint>()

  #entries(): LocalLogEntry[] {
    if (!existsSync(this.#config.log)) return []
    // A process may be killed in the middle of a line.
    return readFileSync(this.#config.log, 'utf8')
      .split('\n')
      .flatMap((line) => {
        try {
          return [JSON.parse(line) as LocalLogEntry]
        } catch {
          return []
        }
      })
  }

  #start(): void {
    this.#started += 1
    const storm = { seed: this.#seed + 1000 + this.#started }
    this.#programs.push(new Program('local-consumer', { ...this.#config, storm } as LocalConsumerConfig))
  }

  async #kill(random: () => number, everyMs: number): Promise<void> {
    while (this.#publishing) {
      await pause(everyMs * (0.5 + random()))
      const [victim] = this.#programs.splice(Math.floor(random() * this.#programs.length), 1)
      if (victim === undefined) continue
      // The handlers end now: what the server still executes of them is not a handler that runs.
      this.#ends.set(victim.pid, process.hrtime.bigint())
      await victim.kill()
      this.kills += 1
      this.#start()
    }
  }

  async #expire(expireLeases: () => Promise<void>): Promise<void> {
    while (this.#publishing) {
      await pause(EXPIRE_EVERY_MS)
      await expireLeases()
    }
  }

  /** Stops a process for longer than its leases, but not for as long as its handlers may take. */
  async #freeze(random: () => number): Promise<void> {
    while (this.#publishing) {
      await pause(FREEZE_MS * random())
      const frozen = this.#programs[Math.floor(random() * this.#programs.length)]
      frozen?.pause()
      await pause(FREEZE_MS)
      frozen?.resume()
      this.freezes += 1
    }
  }

  async #publish(root: Root, random: () => number, messages: number): Promise<void> {
    for (let left = messages; left > 0;) {
      const transaction = await root.begin()
      const stored: Omit<SentMessage, 'after' | 'transaction'>[] = []
      for (let n = Math.min(left, 1 + Math.floor(random() * 4)); n > 0; n -= 1) {
        const key = keyOf(random)
        const before = performance.now()
        const id = await this.#subject.publishIn(transaction, key === undefined ? {} : { key })
        stored.push({ id, key, before })
      }
      if (random() < 0.2) await pause(20 + random() * 100)
      if (random() < 0.15) {
        await transaction.rollback()
        this.rolledBack.push(...stored.map(({ id }) => id))
        continue
      }
      await transaction.commit()
      const after = performance.now()
      for (const each of stored) this.sent.push({ ...each, after, transaction })
      left -= stored.length
      await pause(random() * 120)
    }
  }
}

/** Within a transaction the order is that of the calls; a transaction is before another if it has committed before. */
function isBefore(earlier: SentMessage, later: SentMessage): boolean {
  return earlier.transaction === later.transaction
    ? earlier.before < later.before
    : earlier.after < later.before
}

/** A third of the messages have the hot key, and a tenth have none. */
function keyOf(random: () => number): string | undefined {
  const chance = random()
  if (chance < 0.1) return undefined
  return chance < 0.4 ? 'hot' : `key-${Math.floor(random() * (KEYS - 1))}`
}
