/** Blank lines, and lines that are only a comment, of TypeScript or of SQL. */
const NOT_CODE = /^\s*($|\/\/|\/?\*|--)/

/**
 * Counts the lines of a function, a method or a statement from its signature to its end, without blank lines and comments.
 * `name` is the name, or `Class.member` where a file has several members of that name.
 *
 * @throws {Error} when the source has no such function.
 */
export function linesOfFunction(source: string, name: string): number {
  const [owner, member] = name.includes('.') ? (name.split('.') as [string, string]) : [undefined, name]
  const lines = source.split('\n')
  const body =
    owner === undefined ? lines : sectionFrom(lines, new RegExp(`^(export )?(abstract )?class ${owner}\\b`))
  const escaped = member.replace('#', '\\#')
  const signature = new RegExp(
    `^ *(export )?(async )?function ${escaped}\\b|^  ((protected|async|get) )*${escaped}(<.*>)?\\((.*[{}]|)$|^ +${escaped}: \``,
  )
  const section = sectionFrom(body, signature)
  if (section.length === 0) throw new Error(`There is no ${name}.`)
  return section.filter((line) => !NOT_CODE.test(line)).length
}

/** The lines from the first one that matches to the end of its block: the code is formatted, so the indentation tells. */
function sectionFrom(lines: readonly string[], first: RegExp): readonly string[] {
  const start = lines.findIndex((line) => first.test(line))
  if (start < 0) return []
  const line = lines[start]!
  const indent = /^ */.exec(line)![0]
  const isEnd = line.includes(': `')
    ? (at: string): boolean => at.endsWith('`,')
    : (at: string): boolean => at === `${indent}}` || (at === line && line.endsWith(' }'))
  const end = lines.findIndex((at, index) => index >= start && isEnd(at))
  return lines.slice(start, end + 1)
}
