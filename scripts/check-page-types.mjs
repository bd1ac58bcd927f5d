// Checks that the programs of the packages' READMEs and of the pages below compile against the built packages. The blocks
// of a page form one program. check-readme.mjs also runs the programs of the other pages.
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import path from 'node:path'
import { blocksOf } from './page-programs.mjs'

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))
const PAGES = ['docs/consumer.md', 'docs/http.md', 'docs/local.md', 'docs/queue.md', 'docs/types.md']
const READMES = readdirSync(path.join(root, 'packages')).map((name) => `packages/${name}/README.md`)
const COMPILER = [
  ...['--noEmit', '--strict', '--skipLibCheck', '--target', 'es2023', '--module', 'nodenext'],
  ...['--ignoreConfig', '--erasableSyntaxOnly', '--types', 'node', '--pretty', 'false'],
]

// The folder is in the workspace, because the compiler looks for the packages in the folders above the programs.
mkdirSync(path.join(root, '.tmp'), { recursive: true })
const folder = mkdtempSync(path.join(root, '.tmp', 'pages-'))
try {
  const files = [...PAGES, ...READMES].flatMap((page) => {
    const blocks = blocksOf(page).filter(({ language }) => language === 'ts')
    if (blocks.length === 0) return []
    const file = path.join(folder, `${page.replaceAll(/[/.]/g, '-')}.ts`)
    writeFileSync(file, `${blocks.map(({ code }) => code).join('\n')}\nexport {}\n`)
    return [file]
  })
  const compiler = path.join(root, 'node_modules', 'typescript', 'bin', 'tsc')
  const { status } = spawnSync(process.execPath, [compiler, ...COMPILER, ...files], {
    cwd: root,
    stdio: 'inherit',
  })
  process.exitCode = status ?? 1
  if (status === 0) console.log(`The programs of ${files.length} pages compile.`)
} finally {
  rmSync(folder, { recursive: true, force: true })
}
