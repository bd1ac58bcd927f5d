// Finds SQL in the strings of a TypeScript file: every statement belongs in a *-statements.ts file, where a golden text shows it.
import ts from 'typescript59'

/** A whole statement, or its beginning. */
const STATEMENT = new RegExp(
  [
    String.raw`^\s*\(?\s*select\b[^]*(?:\bfrom\b|\bas\b|\bcast\b|@@|\()`,
    String.raw`^\s*\(?\s*select\s+\d`,
    String.raw`^\s*insert\s+into\b`,
    String.raw`^\s*update\s[^]*\bset\b`,
    String.raw`^\s*delete\s+(?:\w+\s+)?from\b`,
    String.raw`^\s*with\s+(?:recursive\s+)?\w+(?:\s*\([^)]*\))?\s+as\b`,
    String.raw`^\s*(?:begin|commit|rollback|savepoint)\s*;?\s*$`,
    String.raw`^\s*(?:begin\s+(?:isolation|transaction|work)|start\s+transaction|rollback\s+(?:to|work)|prepare\s+transaction)\b`,
    String.raw`^\s*(?:release\s+)?savepoint\s+\S+\s*$`,
    String.raw`^\s*set\s+(?:session|local|global|transaction|statement|autocommit|@)`,
    String.raw`^\s*(?:un)?listen\s+"`,
    String.raw`^\s*notify\s+"`,
    String.raw`^\s*kill\s+(?:query\s|connection\s|\d|…)`,
    String.raw`^\s*show\s+(?:full|global|session|variables|index|tables|status|create)\b`,
    String.raw`^\s*copy\s*\(`,
    String.raw`^\s*do\s+0\s*$`,
    String.raw`^\s*(?:create|alter|drop|truncate)\s+(?:unique\s+|temporary\s+)?(?:table|index|schema|sequence|type|function|trigger|view)\s+(?!if\b)["\`\w…]+[\s(;]`,
    String.raw`^\s*lock\s+(?:in\s+share|table)\b`,
  ].join('|'),
  'i',
)

/** Part of a statement. */
const FRAGMENT = new RegExp(
  [
    String.raw`\b(?:order|group|partition)\s+by\s+["\`\w…]+[.,\s)]*(?:asc\b|desc\b|limit\b|$)`,
    String.raw`\bfor\s+(?:no\s+key\s+)?(?:update|share)\s*(?:of\b|skip\b|nowait\b|$)`,
    String.raw`\block\s+in\s+share\s+mode\b`,
    String.raw`\bunion\s+all\b`,
    String.raw`\bon\s+conflict\s*\(`,
    String.raw`\bon\s+duplicate\s+key\b`,
    String.raw`\b(?:left|cross|inner|straight)[_\s]+join\b`,
    String.raw`\bwhere\s+[\w.…]+\s*(?:=|<|>|\bin\s*\(|\bis\s+(?:not\s+)?null\b)`,
    String.raw`\bcast\s*\([^]*\bas\s+\w+`,
    String.raw`::(?:text|bigint|integer|boolean|regclass|timestamptz|interval)\b`,
    String.raw`\b(?:json_table|utc_timestamp|last_insert_id|char_length|coalesce|octet_length|unix_timestamp)\s*\(`,
    String.raw`\bpg_catalog\.`,
    String.raw`\bforce\s+index\b`,
    String.raw`\binterval\s+(?:'\d|…|\?)`,
    String.raw`@@(?:session\.|global\.)?\w`,
  ].join('|'),
  'i',
)

/** @returns the line and the beginning of each string that holds SQL. */
export function sqlInStrings(name, source) {
  const found = []
  const file = ts.createSourceFile(name, source, ts.ScriptTarget.Latest, true)
  const visit = (node) => {
    if (ts.isTypeNode(node) || ts.isImportDeclaration(node) || ts.isExportDeclaration(node)) return
    const text = textOf(node)
    const isSql =
      text !== undefined && (STATEMENT.test(text) || FRAGMENT.test(text) || isWrittenAsSql(node, text))
    if (isSql) {
      const { line } = file.getLineAndCharacterOfPosition(node.getStart())
      found.push({ line: line + 1, text: text.trim().replaceAll(/\s+/g, ' ').slice(0, 60) })
    }
    ts.forEachChild(node, visit)
  }
  visit(file)
  return found
}

/** Whether this is a template of Kysely's `sql` that contains more than its expressions. */
function isWrittenAsSql(node, text) {
  const { parent } = node
  const isTagged =
    ts.isTaggedTemplateExpression(parent) && ts.isIdentifier(parent.tag) && parent.tag.text === 'sql'
  return isTagged && /[^…\s]/.test(text)
}

/** A string or a template, whose expressions become `…`. */
function textOf(node) {
  if (ts.isStringLiteral(node) || ts.isNoSubstitutionTemplateLiteral(node)) return node.text
  if (!ts.isTemplateExpression(node)) return undefined
  return node.head.text + node.templateSpans.map(({ literal }) => `…${literal.text}`).join('')
}
