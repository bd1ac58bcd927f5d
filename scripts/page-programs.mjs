// The code that the checks of the pages share: the programs of a page, and commands with a time limit, which end with the
// check.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import path from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))
const LONGEST_COMMAND_MS = 60_000
/** The maximum time for the expected output or effect of a program. */
const DEADLINE_MS = 60_000
const began = Date.now()

/** The compiler options of all programs. The declarations of some libraries contain type errors; check-installs.mjs does without skipLibCheck. */
export const COMPILER = [
  '--strict',
  '--skipLibCheck',
  '--target',
  'es2023',
  '--module',
  'nodenext',
  '--types',
  'node',
]

/** The compiler options for programs that Node.js runs as they are. */
export const TYPE_CHECK = [
  ...COMPILER,
  '--noEmit',
  '--allowImportingTsExtensions',
  '--erasableSyntaxOnly',
  '--verbatimModuleSyntax',
]

/** The compiler options for programs with NestJS. */
export const NEST = [...COMPILER, '--experimentalDecorators', '--emitDecoratorMetadata', '--outDir', 'dist']

/** Functions that clean up when the check ends, called in reverse order. */
export const undo = []

export const say = (text) => console.log(`${((Date.now() - began) / 1000).toFixed(0).padStart(3)} s  ${text}`)

/** All programs and shell blocks of a page. The first line of a program names its file. */
export function blocksOf(page) {
  const text = readFileSync(path.join(root, page), 'utf8')
  return [...text.matchAll(/^```(\w+)\n([\s\S]*?)^```$/gm)].map(([, language, code]) => ({
    language,
    code,
    file: /^\/\/ ([\w.-]+\.(?:ts|prisma))\n/.exec(code)?.[1],
  }))
}

/** The commands `npm install …` in the sentences of a page. */
export function installsOf(page) {
  const prose = readFileSync(path.join(root, page), 'utf8').replaceAll(/^```\w+\n[\s\S]*?^```$/gm, '')
  return [...prose.matchAll(/`(npm install [^`]+)`/g)].map(([, command]) => command.replaceAll('\n', ' '))
}

/** An empty folder in which npm finds the packages as they would be published. */
export function emptyProject(folder, name, registry) {
  const project = path.join(folder, name)
  mkdirSync(project)
  writeFileSync(path.join(project, '.npmrc'), `registry=${registry.url}\naudit=false\nfund=false\n`)
  return project
}

/** Runs a command in the folder, in its own process group. `output` grows while the command runs. */
export function start(command, args, cwd, env) {
  const child = spawn(command, args, { cwd, env, detached: true, stdio: ['ignore', 'pipe', 'pipe'] })
  const running = {
    name: [command, ...args].join(' ').split('\n')[0],
    output: '',
    child,
    exit: once(child, 'close'),
  }
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (chunk) => (running.output += chunk))
  }
  undo.push(() => end(running, 'SIGKILL'))
  return running
}

export async function end(running, signal) {
  try {
    process.kill(-running.child.pid, signal)
  } catch (error) {
    if (error.code !== 'ESRCH') throw error
  }
  return running.exit
}

/** @returns what the command has printed. */
export async function run(command, args, cwd, env, longestMs = LONGEST_COMMAND_MS) {
  const running = start(command, args, cwd, env)
  const tooLong = setTimeout(() => void end(running, 'SIGKILL'), longestMs)
  const [code] = await running.exit
  clearTimeout(tooLong)
  if (code !== 0) throw new Error(`'${running.name}' ended with ${code}:\n${running.output}`)
  return running.output
}

/** Waits for the output or the effect of a running program. */
export async function waitUntil(condition, running, what) {
  for (const from = Date.now(); !(await condition()); await pause(50)) {
    if (Date.now() - from < DEADLINE_MS) continue
    throw new Error(`'${running.name}': ${what} did not come. It printed:\n${running.output}`)
  }
}
