export { libraryUnderTest } from './prisma.ts'
