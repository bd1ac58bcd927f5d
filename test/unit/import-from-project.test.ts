import { mkdtemp, mkdir, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import { importFromProject } from '../../packages/command/src/import-from-project.ts'

/** A project in the working directory with one package. */
async function projectWith(name: string, code: string): Promise<string> {
  const project = await realpath(await mkdtemp(path.join(tmpdir(), 'txbox-project-')))
  onTestFinished(() => rm(project, { recursive: true }))
  const folder = path.join(project, 'node_modules', name)
  await mkdir(folder, { recursive: true })
  await writeFile(path.join(folder, 'package.json'), JSON.stringify({ name, exports: './index.mjs' }))
  await writeFile(path.join(folder, 'index.mjs'), code)
  vi.spyOn(process, 'cwd').mockReturnValue(project)
  onTestFinished(() => void vi.restoreAllMocks())
  return project
}

const load = (name: string): Promise<unknown> =>
  importFromProject(name, `npm install ${name} absent-client`, 'to publish')

test('a package that lacks a package that it needs is an error with the command that installs both', async () => {
  const project = await projectWith('half-a-driver', "import 'absent-client'")
  await expect(load('half-a-driver')).rejects.toThrow(
    `half-a-driver needs absent-client, which is not installed in ${project}, and is needed to publish: run 'npm install half-a-driver absent-client'.`,
  )
})

test('a package that is not installed is an error with the command that installs it', async () => {
  const project = await projectWith('another', '')
  await expect(load('no-driver')).rejects.toThrow(
    `no-driver is not installed in ${project}, and is needed to publish: run 'npm install no-driver absent-client'.`,
  )
})

test('any other error of a package is rethrown', async () => {
  await projectWith('broken-driver', "throw new Error('broken')")
  await expect(load('broken-driver')).rejects.toThrow(/^broken$/)
})
