import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { valueOf, type ScrapedSample } from '../support/subjects/metrics-text.ts'
import { expectAnswered, selectorsOf } from '../support/subjects/promql.ts'
import { hasPromtool, promtool } from '../support/subjects/promtool.ts'
import { skipBecause } from '../support/tiers/skips.ts'
import { until } from '../support/worlds/until.ts'
import { startMetrics } from './use-metrics.ts'
import { claims, parked, useShop } from './use-shop.ts'

const shop = useShop()
const folder = new URL('../../docs/observability/', import.meta.url)
const rules = readFileSync(new URL('alerts.yml', folder), 'utf8')
const alerts = [...rules.matchAll(/- alert: (\w+)\n\s+expr: (.*)\n/g)].map(([, name = '', query = '']) => ({
  name,
  query,
}))
const dashboard = JSON.parse(readFileSync(new URL('dashboard.json', folder), 'utf8')) as {
  panels: { title: string; targets: { expr: string }[] }[]
}

/** What a relay and a collector report of a database in which everything occurs. */
async function scrapeEverything(): Promise<readonly ScrapedSample[]> {
  await shop.sql(claims(1, 1))
  await shop.sql(parked('p', { due_at: "now() + interval '1 hour'", attempts: '1' }))
  await shop.sql(parked('q', { topic: "'work'", due_at: 'now()' }, 'queue'))
  await shop.sql("insert into txbox.subscriptions (type, consumer) values ('order', 'mailer')")
  await shop.sql(
    "insert into txbox.outbox (shard, id, topic, content_type, headers, payload) values (0, 'm', 'orders', 'application/json', '{}', '1')",
  )
  const relay = await startMetrics(['relay', '--publisher', 'stdout:'], shop.url)
  const gc = await startMetrics(['gc', '--interval-ms', '3600000'], shop.url)
  let found: readonly ScrapedSample[] = []
  await until(
    async () => {
      found = [...(await relay.scrape()), ...(await gc.scrape())]
      return (
        valueOf(found, 'txbox_relay_messages_total', { outcome: 'accepted' }) === 1 &&
        valueOf(found, 'txbox_gc_duration_seconds_count') === 1
      )
    },
    () => `the relay has published, and the collector has collected: ${JSON.stringify(found)}`,
  )
  await Promise.all([relay.stop(), gc.stop()])
  return found
}

test('each query of the alert rules and of the dashboard finds its metrics and labels in a scrape', async () => {
  const scraped = await scrapeEverything()
  expect(alerts.length).toBe([...rules.matchAll(/ alert: /g)].length)
  const queries = dashboard.panels.flatMap(({ targets }) => targets.map(({ expr }) => expr))
  expect(queries.length).toBeGreaterThan(dashboard.panels.length - 1)
  for (const query of [...alerts.map((alert) => alert.query), ...queries]) expectAnswered(query, scraped)
})

test('each alert that compares with a threshold has one beside it for metrics that are absent', () => {
  const absent = alerts.filter(({ query }) => query.startsWith('absent('))
  const thresholds = alerts.filter(({ query }) => !query.startsWith('absent('))
  expect(thresholds.length).toBe(absent.length)
  for (const { name, query } of thresholds) {
    expect(query).toMatch(/ [<>] \d+$/)
    const beside = absent.find((alert) => alert.name === `${name}Absent`)
    expect(
      selectorsOf(beside?.query ?? '').map((selector) => selector.name),
      name,
    ).toEqual(selectorsOf(query).map((selector) => selector.name))
  }
})

test('promtool accepts the rules and the queries, and the alerts fire when they should', (context) => {
  if (!hasPromtool) skipBecause(context, 'no-promtool')
  const temporary = mkdtempSync(path.join(tmpdir(), 'txbox-rules-'))
  onTestFinished(() => rmSync(temporary, { recursive: true }))
  const file = (name: string, content: unknown): string => {
    const whole = path.join(temporary, name)
    // JSON is YAML.
    writeFileSync(whole, typeof content === 'string' ? content : JSON.stringify(content))
    return whole
  }
  const rulesFile = file('alerts.yml', rules)
  promtool(['check', 'rules', rulesFile])
  const recorded = dashboard.panels.flatMap(({ targets }) =>
    targets.map(({ expr }, n) => ({
      record: `panel:query${n}`,
      expr: expr.replaceAll('$__rate_interval', '5m'),
    })),
  )
  promtool([
    'check',
    'rules',
    '--lint=none',
    file('dashboard.yml', { groups: [{ name: 'dashboard', rules: recorded }] }),
  ])
  const fires = (
    at: string,
    firing: readonly string[],
    series: Readonly<Record<string, string>>,
  ): object => ({
    interval: '1m',
    input_series: Object.entries(series).map(([name, values]) => ({ series: name, values })),
    promql_expr_test: [
      {
        expr: 'count by (alertname) (ALERTS{alertstate="firing"})',
        eval_time: at,
        exp_samples: firing.map((alertname) => ({ labels: `{alertname="${alertname}"}`, value: 1 })),
      },
    ],
  })
  const healthy: Record<string, string> = {
    'txbox_oldest_due_age_seconds{instance="a"}': '0x200',
    'txbox_oldest_due_age_seconds{instance="a", queue="work"}': '0x200',
    'txbox_metrics_stale{instance="a"}': '0x200',
    'txbox_metrics_stale{instance="b"}': '1x200',
    'txbox_outbox_backlog_age_seconds{instance="a"}': '5x200',
    'txbox_outbox_backlog_age_seconds{instance="a", consumer="mailer"}': '5x200',
    'txbox_outbox_dead_letters{instance="a"}': '0x200',
    'txbox_relay_publisher_up{instance="a"}': '1x200',
    'txbox_relay_shards{instance="a"}': '8x200',
    'txbox_relay_shards{instance="b"}': '8x200',
    'txbox_relay_leases_lost_total{instance="a", reason="expired"}': '0x200',
    'txbox_relay_leases_lost_total{instance="a", reason="stopped"}': '0+1x200',
    'txbox_gc_duration_seconds_count{instance="c"}': '0+1x200',
    'txbox_queue_messages{instance="a", queue="work", state="dead"}': '0x200',
  }
  const ill = (changes: Readonly<Record<string, string>>): Record<string, string> => ({
    ...healthy,
    ...changes,
  })
  promtool([
    'test',
    'rules',
    file('test.yml', {
      rule_files: [rulesFile],
      evaluation_interval: '1m',
      tests: [
        fires('3h', [], healthy),
        fires(
          '3h',
          alerts.map(({ name }) => name).filter((name) => name.endsWith('Absent')),
          {},
        ),
        fires(
          '3h',
          alerts.map(({ name }) => name).filter((name) => !name.endsWith('Absent')),
          ill({
            'txbox_oldest_due_age_seconds{instance="a", queue="work"}': '601x200',
            'txbox_metrics_stale{instance="a"}': '1x200',
            'txbox_outbox_backlog_age_seconds{instance="a"}': '61x200',
            'txbox_outbox_dead_letters{instance="a"}': '1x200',
            'txbox_relay_publisher_up{instance="a"}': '0x200',
            'txbox_relay_shards{instance="b"}': '7x200',
            'txbox_relay_leases_lost_total{instance="a", reason="expired"}': '0x170 1x30',
            'txbox_gc_duration_seconds_count{instance="c"}': '1x200',
            'txbox_queue_messages{instance="a", queue="work", state="dead"}': '1x200',
          }),
        ),
      ],
    }),
  ])
})
