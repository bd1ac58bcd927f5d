import path from 'node:path'
import { crc32 } from 'node:zlib'

/** Files that the quick tier runs on one of several databases. */
interface Rotation {
  /** The projects that share the files among them. */
  readonly projects: readonly string[]
  /** A pattern of the files. */
  readonly files: string
  /** A pattern of the files that run on each of these databases, unless they are rotated. */
  readonly everyDatabase: string
}

/**
 * Files named `….rotated.test.ts`: property tests and stress tests, and what relays, consumers and collectors decide after
 * statements that other files test on every database. Each of these files takes seconds, and other files prove its rules on
 * every database (test/unit/guarantees.test.ts checks it).
 */
export const ROTATIONS: readonly Rotation[] = [
  {
    projects: ['postgres', 'mysql', 'mariadb'],
    files: 'test/contract/*/*.rotated.test.ts',
    everyDatabase: 'test/contract/*/*.test.ts',
  },
  {
    projects: ['mysql-only', 'mariadb-only'],
    files: 'test/contract-mysql/*.rotated.test.ts',
    everyDatabase: 'test/contract{/*,-mysql}/*.test.ts',
  },
]

export function isRotated(file: string): boolean {
  return file.endsWith('.rotated.test.ts')
}

/** The project that runs a rotated file in the quick tier. The name of the file alone decides. */
export function projectOf(file: string, projects: readonly string[]): string | undefined {
  return projects[crc32(path.basename(file)) % projects.length]
}
