import type { Consumer, LocalConsumer } from '@txbox/consumer'
import type { ConnectedDatabase } from '@txbox/core'
import { createGarbageCollector, type GarbageCollector } from '@txbox/gc'
import { createRelay, type Relay } from '@txbox/relay'
import type { Ambient } from './ambient.ts'
import { creating, type BoxSettings } from './box-settings.ts'
import { localPart } from './local-parts.ts'
import { sourcePart } from './source-parts.ts'

/** A part of a box as the box starts and stops it. */
export interface Part {
  readonly name: string
  readonly start: () => Promise<void>
  readonly stop: (options: { readonly timeoutMs: number }) => Promise<void>
}

/** The parts of a box. */
export interface BoxParts {
  readonly consumers: Readonly<Record<string, LocalConsumer>>
  readonly sources: Readonly<Record<string, Consumer>>
  readonly relay: Relay | undefined
  readonly gc: GarbageCollector | undefined
  /** All of them, in the order of their start; those of one group start at the same time. */
  readonly groups: readonly (readonly Part[])[]
}

/** @throws {InvalidOptionError} for a wrong option of a part, which the error names. */
export function boxParts(
  settings: BoxSettings,
  {
    ambient,
    database,
    isolationLevel,
  }: {
    readonly ambient: Ambient
    readonly database: ConnectedDatabase<unknown>
    readonly isolationLevel: unknown
  },
): BoxParts {
  const { ports, publisher, logger, telemetry } = settings
  const consumers = mapped(settings.consumers, (name, entry) =>
    localPart(name, entry, { ambient, database, ...defined({ logger, telemetry, isolationLevel }) }),
  )
  const sources = mapped(settings.sources, (name, entry) =>
    sourcePart(name, entry, { ambient, database, ports, logger, telemetry }),
  )
  const relay =
    settings.relay === undefined
      ? undefined
      : creating('relay', () =>
          createRelay({ logger, telemetry, ...settings.relay, database, publisher: publisher! }),
        )
  const gc =
    settings.gc === undefined
      ? undefined
      : creating('gc', () => createGarbageCollector({ logger, telemetry, ...settings.gc, database }))
  return {
    consumers,
    sources,
    relay,
    gc,
    groups: [
      Object.entries({ ...consumers }).map(([name, part]) => named(name, part)),
      Object.entries({ ...sources }).map(([name, part]) => named(name, part)),
      relay === undefined ? [] : [named('relay', relay)],
      gc === undefined ? [] : [named('gc', gc)],
    ],
  }
}

function named(name: string, part: Omit<Part, 'name'>): Part {
  return { name, start: () => part.start(), stop: (options) => part.stop(options) }
}

function mapped<T>(
  entries: ReadonlyMap<string, object>,
  create: (name: string, entry: object) => T,
): Readonly<Record<string, T>> {
  return Object.fromEntries([...entries].map(([name, entry]) => [name, create(name, entry)]))
}

/** An option that is `undefined` must not replace that of an entry. */
function defined(options: Readonly<Record<string, unknown>>): object {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined))
}
