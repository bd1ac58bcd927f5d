import type { LibraryModule } from './library-under-test.ts'
import { wrapping } from './sql-transaction.ts'

export const libraryUnderTest: LibraryModule['libraryUnderTest'] = async (_, engine) =>
  wrapping(engine, { tellsEnd: true })
