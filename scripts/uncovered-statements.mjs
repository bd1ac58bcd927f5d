import path from 'node:path'

/** Statement files contain all SQL of the packages. */
const STATEMENTS = /-statements\.ts$/

/**
 * Returns the statement files whose statements no golden test compares with an approved text. A golden test covers the
 * statement files that it imports, the statement files that these import, and, if it imports a package, all statement
 * files of that package that the package's entry imports.
 *
 * @param imports the files that each file of the packages imports.
 * @param tests the golden tests, by path.
 */
export function uncoveredStatements(imports, tests) {
  const covered = new Set()
  const cover = (file, goesOn) => {
    if (covered.has(file)) return
    covered.add(file)
    for (const next of imports.get(file) ?? []) if (goesOn(next)) cover(next, goesOn)
  }
  for (const [test, source] of tests) {
    for (const [, specifier] of source.matchAll(/\bfrom\s+['"]([^'"]+)['"]/g)) {
      const file = path.posix.join(path.posix.dirname(test), specifier)
      const [, name] = /^@txbox\/([\w-]+)$/.exec(specifier) ?? []
      if (name !== undefined) cover(`packages/${name}/src/index.ts`, () => true)
      else if (STATEMENTS.test(file)) cover(file, (next) => STATEMENTS.test(next))
    }
  }
  return [...imports.keys()].filter((file) => STATEMENTS.test(file) && !covered.has(file))
}
