import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** Leaves out the test files of projects whose servers were not found. Runs after the search for servers. */
export class LeaveOutSequencer extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files)
    return sorted.filter((file) => (file.project.getProvidedContext().missing ?? []).length === 0)
  }
}
