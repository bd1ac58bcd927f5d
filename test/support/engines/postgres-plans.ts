import type { Client } from 'pg'

/** A node of a plan of PostgreSQL, as `explain (analyze, buffers, format json)` shows it. */
export interface PlanNode {
  readonly 'Node Type': string
  readonly 'Relation Name'?: string
  readonly 'Index Name'?: string
  readonly 'Conflict Arbiter Indexes'?: readonly string[]
  readonly 'Actual Rows': number
  readonly 'Actual Loops': number
  readonly 'Shared Hit Blocks': number
  readonly 'Shared Read Blocks': number
  readonly 'Rows Removed by Filter'?: number
  readonly 'Rows Removed by Index Recheck'?: number
  readonly Plans?: readonly PlanNode[]
}

/** Plans the statement, and executes it. @returns all nodes of the plan, the root first. */
export async function planOf(
  client: Client,
  text: string,
  values: readonly unknown[],
): Promise<readonly [root: PlanNode, ...others: PlanNode[]]> {
  const { rows } = await client.query<{ 'QUERY PLAN': [{ Plan: PlanNode }] }>(
    `explain (analyze, buffers, format json) ${text}`,
    [...values],
  )
  const root = rows[0]!['QUERY PLAN'][0].Plan
  return [root, ...nodesBelow(root)]
}

function nodesBelow({ Plans = [] }: PlanNode): readonly PlanNode[] {
  return [...Plans, ...Plans.flatMap(nodesBelow)]
}

/** The same, in a transaction that is rolled back. */
export async function planOfRolledBack(
  client: Client,
  text: string,
  values: readonly unknown[],
): ReturnType<typeof planOf> {
  await client.query('begin')
  const plan = await planOf(client, text, values)
  await client.query('rollback')
  return plan
}

/** The number of blocks that the statement read. */
export function blocksRead([root]: Awaited<ReturnType<typeof planOf>>): number {
  return root['Shared Hit Blocks'] + root['Shared Read Blocks']
}

/** The number of rows of these tables that the statement examined. */
export function rowsExamined(plan: readonly PlanNode[], ...tables: readonly string[]): number {
  return plan
    .filter((node) => node['Node Type'].includes('Scan') && tables.includes(node['Relation Name'] ?? ''))
    .reduce((sum, node) => sum + examinedBy(node), 0)
}

function examinedBy(node: PlanNode): number {
  const removed = (node['Rows Removed by Filter'] ?? 0) + (node['Rows Removed by Index Recheck'] ?? 0)
  return (node['Actual Rows'] + removed) * node['Actual Loops']
}
