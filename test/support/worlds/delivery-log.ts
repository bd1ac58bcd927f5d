import { mkdtempSync, readFileSync, existsSync, appendFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { onTestFinished } from 'vitest'
import type { LogEntry } from '../../crash/programs/relay.ts'
import { until } from './until.ts'

export type DeliveryEntry = Extract<LogEntry, { what: 'delivery' }>

/** The append-only file that the programs of test/crash write to: a broker that survives every kill. */
export class DeliveryLog {
  readonly folder = mkdtempSync(path.join(os.tmpdir(), 'txbox-crash-'))
  readonly file = path.join(this.folder, 'log')

  constructor() {
    onTestFinished(() => rm(this.folder, { recursive: true, force: true }))
  }

  entries(): LogEntry[] {
    if (!existsSync(this.file)) return []
    // The last line may be incomplete, because it is being written.
    const lines = readFileSync(this.file, 'utf8').split('\n').slice(0, -1)
    return lines.map((line) => JSON.parse(line) as LogEntry)
  }

  deliveries(): DeliveryEntry[] {
    return this.entries().filter((entry) => entry.what === 'delivery')
  }

  append(...entries: readonly LogEntry[]): void {
    for (const entry of entries) appendFileSync(this.file, `${JSON.stringify(entry)}\n`)
  }

  /** The deliveries of a key that a consumer sees if it drops duplicates. */
  bodiesOf(key: string): string[] {
    const seen = new Map<string, string>()
    for (const entry of this.deliveries())
      if (entry.key === key && !seen.has(entry.id)) seen.set(entry.id, entry.body)
    return [...seen.values()]
  }

  /** Resends that differ from the first delivery of their id. */
  differing(): string[] {
    const first = new Map<string, string>()
    return this.deliveries().flatMap(({ id, key, body }) => {
      const text = JSON.stringify([key, body])
      const same = (first.get(id) ?? text) === text
      first.set(id, first.get(id) ?? text)
      return same ? [] : [id]
    })
  }

  async delivered(count: number): Promise<void> {
    await until(
      async () => this.deliveries().length >= count,
      () => `${count} deliveries; there are ${this.deliveries().length}`,
      20_000,
    )
  }
}
