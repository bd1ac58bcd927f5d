import path from 'node:path'
import { BaseSequencer, type TestSpecification } from 'vitest/node'
import { ROTATIONS, isRotated, projectOf } from '../../tiers/rotated-files.ts'
import { tierOfRun } from '../../tiers/tier.ts'

/**
 * Selects and sorts the test files of a run, after the search for servers. Files of projects whose servers were not found
 * are left out. In the quick tier each rotated file keeps one of the databases that were found.
 */
export class LeaveOutSequencer extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files)
    const found = sorted.filter((file) => (file.project.getProvidedContext().missing ?? []).length === 0)
    return longProjectsFirst(tierOfRun() === 'all' ? found : withoutTurnsOfOthers(found))
  }
}

/** Keeps each rotated file in one of the projects that have the file. */
function withoutTurnsOfOthers(files: readonly TestSpecification[]): TestSpecification[] {
  const found = new Set(files.map(({ project }) => project.name))
  const sharing = ROTATIONS.map(({ projects, files: pattern }) => ({
    projects: projects.filter((name) => found.has(name)),
    pattern,
  }))
  return files.filter(({ project, moduleId }) => {
    if (!isRotated(moduleId)) return true
    const file = path.relative(project.config.root, moduleId)
    const { projects } = sharing.find(({ pattern }) => path.matchesGlob(file, pattern))!
    return projectOf(file, projects) === project.name
  })
}

/**
 * Puts projects of few files, which are long, before projects of many files, and unit tests last, so that at the end of
 * the run no worker is left alone with a long file. Within a project the longest file is the first.
 */
function longProjectsFirst(files: readonly TestSpecification[]): TestSpecification[] {
  const counts = new Map<string, number>()
  for (const { project } of files) counts.set(project.name, (counts.get(project.name) ?? 0) + 1)
  const rankOf = ({ project }: TestSpecification): number =>
    project.name === 'unit' ? Infinity : counts.get(project.name)!
  const ranked = files.map((file) => [rankOf(file), file] as const)
  return ranked.toSorted(([a], [b]) => (a === b ? 0 : a - b)).map(([, file]) => file)
}
