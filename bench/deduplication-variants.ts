import { randomBytes } from 'node:crypto'
import { uuidV7 } from '@txbox/core/internal'

/** The order of ids of sends: that of their time, such as UUIDv7, or none. */
export type IdOrder = 'ordered' | 'random'

/** How many old ids the table of each variant has, and their order. The bare variant publishes no message. */
export const DEDUPLICATION_VARIANTS = {
  bare: undefined,
  fewOrdered: { many: false, order: 'ordered' },
  manyOrdered: { many: true, order: 'ordered' },
  fewRandom: { many: false, order: 'random' },
  manyRandom: { many: true, order: 'random' },
} as const satisfies Record<string, { many: boolean; order: IdOrder } | undefined>

export type DeduplicationVariant = keyof typeof DEDUPLICATION_VARIANTS

export const DEDUPLICATION_NAMES = Object.keys(DEDUPLICATION_VARIANTS) as DeduplicationVariant[]

/** The rows and the targets of the benchmark on one database. */
export function deduplicationTable(driver: string) {
  return {
    titles: {
      bare: { title: `bare transaction, ${driver}` },
      fewOrdered: { title: 'few old ids, in the order of time' },
      manyOrdered: { title: 'many old ids, in the order of time', byHand: 'fewOrdered' },
      fewRandom: { title: 'few old ids, random' },
      manyRandom: { title: 'many old ids, random', byHand: 'fewRandom' },
    },
    targets: [
      {
        what: 'deduplication, many old ids in the order of time: rate ÷ few',
        ours: 'manyOrdered',
        other: 'fewOrdered',
        bound: { atLeast: 0.9 },
      },
      {
        what: 'deduplication, many old ids, random: rate ÷ few',
        ours: 'manyRandom',
        other: 'fewRandom',
        bound: { atLeast: 0.9 },
      },
    ],
  } as const
}

/** The number of old ids in the table of a variant. */
export function oldIdsOf(name: DeduplicationVariant, oldClaims: number): number {
  return DEDUPLICATION_VARIANTS[name]?.many === true ? oldClaims : 0
}

/** The rows that a variant leaves after this many transactions. */
export function deduplicationWork(
  name: DeduplicationVariant,
  transactions: number,
  oldClaims: number,
): { readonly credits: number; readonly outbox: number; readonly inbox: number } {
  const stored = name === 'bare' ? 0 : transactions
  return { credits: transactions, outbox: stored, inbox: oldIdsOf(name, oldClaims) + stored }
}

/** Makes new ids. An id in the order of time comes after all old ids. */
export function newIdsOf(order: IdOrder): () => string {
  return order === 'ordered' ? () => `z${uuidV7()}` : () => randomBytes(16).toString('hex')
}
