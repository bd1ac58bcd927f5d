// After `changeset version`, each package has its own changelog, and most contain the same changes. This script copies the
// new changes into one section of CHANGELOG.md: each change once, with its packages, and the revision of the tables. It
// also gives the workspace the version of its packages.
import { existsSync, readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import path from 'node:path'

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))
const read = (...parts) => readFileSync(path.join(root, ...parts), 'utf8')
const { version } = JSON.parse(read('packages', 'txbox', 'package.json'))

/** The changes of this version in a package's changelog, without the lines that only repeat the new version. */
function changesOf(name) {
  if (!existsSync(path.join(root, 'packages', name, 'CHANGELOG.md'))) return []
  const [, section = ''] = read('packages', name, 'CHANGELOG.md').split(`\n## ${version}\n`)
  const changes = []
  let kind = ''
  for (const entry of section.split(/\n(?=## )/)[0].split(/\n(?=- |### )/)) {
    const text = entry.trim()
    if (text.startsWith('### ')) kind = text.split('\n')[0]
    else if (text.startsWith('- ') && !/^- (Updated dependencies|@txbox\/[a-z]+@\d|txbox@\d)/.test(text))
      changes.push({ kind, text: text.replace(/^- [0-9a-f]{7,40}: /, '- '), name })
  }
  return changes
}

const packages = readdirSync(path.join(root, 'packages'))
const kinds = new Map()
for (const { kind, text, name } of packages.flatMap(changesOf)) {
  if (!kinds.has(kind)) kinds.set(kind, new Map())
  const texts = kinds.get(kind)
  texts.set(text, [...(texts.get(text) ?? []), name])
}
const revision = Math.max(
  ...readdirSync(path.join(root, 'migrations', 'postgres')).map((file) => parseInt(file, 10)),
)
const sections = ['### Major Changes', '### Minor Changes', '### Patch Changes']
  .filter((kind) => kinds.has(kind))
  .map((kind) => {
    const entries = [...kinds.get(kind)].map(([text, names]) => `${text} (${names.join(', ')})`)
    return `${kind}\n\n${entries.join('\n')}\n`
  })
const changelog = read('CHANGELOG.md')
if (changelog.includes(`\n## ${version} `) || changelog.includes(`\n## ${version}\n`)) {
  throw new Error(`CHANGELOG.md has version ${version} already.`)
}
const [head, ...rest] = changelog.split(/\n(?=## )/)
const date = new Date().toISOString().slice(0, 10)
const section = `## ${version} (${date})\n\nThe tables have revision ${revision}.\n\n${sections.join('\n')}`
writeFileSync(path.join(root, 'CHANGELOG.md'), [head, section, ...rest].join('\n'))
const workspace = JSON.parse(read('package.json'))
writeFileSync(path.join(root, 'package.json'), `${JSON.stringify({ ...workspace, version }, undefined, 2)}\n`)
console.log(`CHANGELOG.md: ${version}`)
