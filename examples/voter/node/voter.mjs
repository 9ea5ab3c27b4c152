// Voter's client in Node.js: fills the small tables, votes for as long as it is told, and compares
// what it was told with what is there.

import { appendFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { Client } from 'ferritedb'

// Twelve names; a run uses the first ones.
const NAMES = 'Ada Lindqvist,Bruno Valdez,Carmen Okafor,Dmitri Hale,Esther Moreau,Felix Tanaka,Greta Solberg,Hamid Rahimi,Ines Duarte,Jonas Keller,Keiko Arai,Liam Brennan'
const NOBODY = 999
const PHONES_PER_AREA = 10_000_000
const ENDS = ['accepted', 'rejected: no such contestant', 'rejected: over the limit']

const options = readOptions()
const client = await Client.connect({
  servers: options.servers,
  user: options.user,
  password: options.password,
  maxOutstanding: options.outstanding,
  bigint: 'number',
}).catch((error) => refuse(error.message))
const counts = { answers: [0, 0, 0], failed: 0, unknown: 0 }
let right = false
try {
  right = await run()
} catch (error) {
  console.error(`error: ${error.message}`)
} finally {
  await client.close()
}
process.exitCode = right ? 0 : 1

async function run() {
  const contestants = (await client.call('Initialize', [options.contestants, NAMES])).scalar()
  const areaCodes = (await client.query('SELECT area_code FROM area_code_state ORDER BY area_code')).map((row) => row.AREA_CODE)
  const before = await number('SELECT COUNT(*) FROM votes')
  const vote = client.procedure('Vote')
  const once = async () => {
    try {
      const answer = (await vote(...next(areaCodes, contestants))).scalar()
      if (answer in counts.answers) counts.answers[answer] += 1
      else counts.failed += 1
    } catch (error) {
      counts[error.outcome === 'unknown' ? 'unknown' : 'failed'] += 1
    }
  }
  console.log(`${contestants} contestants, ${options.maxvotes} votes a phone number, ${options.mode === 'sync' ? `${options.threads} callers that wait for each answer` : 'waiting for none'}`)
  await load(once)

  const cast = counts.answers.reduce((sum, count) => sum + count, counts.failed + counts.unknown)
  const rows = [['votes were cast', cast], ...ENDS.map((end, at) => [end, counts.answers[at]]), ['failed', counts.failed], ['unknown: they may have counted', counts.unknown]]
  for (const [what, count] of rows) console.log(`${String(count).padStart(14)} ${what}`)
  for (const row of await client.call('Results')) console.log(`${row.CONTESTANT_NAME.padEnd(20)}${String(row.TOTAL_VOTES).padStart(14)}`)
  const added = (await number('SELECT COUNT(*) FROM votes')) - before
  const inView = (await number('SELECT COALESCE(SUM(num_votes), 0) FROM v_votes_by_phone_number')) - before
  if (added < counts.answers[0] || added > counts.answers[0] + counts.unknown || inView !== added) {
    console.log(`wrong: ${added} votes are there, ${inView} in the view; ${counts.answers[0]} were accepted, ${counts.unknown} are unknown`)
    return false
  }
  console.log(`right: each of ${added} votes that are there was accepted, in table and view`)
  return counts.failed === 0
}

async function number(sql) {
  return (await client.call('@AdHoc', [sql])).scalar()
}

/**
 * Phone, contestant, limit. Half of the votes go to the area's favourite, one in a hundred to
 * nobody.
 */
function next(areaCodes, contestants) {
  const area = below(areaCodes.length)
  const chance = below(100)
  const favourite = area % 10 < 7 ? 1 + ((area * 31) % contestants) : 1
  const contestant = chance === 0 ? NOBODY : chance % 2 === 1 ? favourite : 1 + below(contestants)
  return [areaCodes[area] * PHONES_PER_AREA + below(PHONES_PER_AREA), contestant, options.maxvotes]
}

function below(bound) {
  return Math.floor(Math.random() * bound)
}

/** Calls for as long as it should, with a line of figures now and then. */
async function load(once) {
  const measuredFrom = performance.now() + options.warmup * 1000
  const until = measuredFrom + options.duration * 1000
  const pace = paced(options.ratelimit)
  client.statistics({ interval: true })
  const spans = []
  let lines
  const begin = setTimeout(() => {
    client.statistics({ interval: true }) // The warm-up is forgotten.
    lines = setInterval(() => {
      const span = client.statistics({ interval: true })
      spans.push(span)
      console.log(`${new Date().toTimeString().slice(0, 8)} ${line(span)}`)
    }, options.displayinterval * 1000)
  }, options.warmup * 1000)
  const caller = async () => {
    while (performance.now() < until) {
      await pace()
      await once()
    }
  }
  // Each caller awaits its answer before its next call. As many callers as calls may be out keep
  // the driver full.
  await Promise.all(Array.from({ length: options.mode === 'sync' ? options.threads : options.outstanding }, caller))
  clearTimeout(begin)
  clearInterval(lines)
  spans.push(client.statistics({ interval: true }))
  const total = { succeeded: 0, failed: 0, unknown: 0, durationMs: 0 }
  for (const span of spans) for (const key of Object.keys(total)) total[key] += span[key]
  console.log(`Average: ${line(total)}`)
  if (options.statsfile) {
    const { latency } = client.statistics()
    const figures = [0, latency.max, latency.p95, latency.p99, latency.p999, latency.p9999, latency.p99999].map((us) => (us / 1000).toFixed(2))
    const ms = Math.round(total.durationMs)
    appendFileSync(options.statsfile, `${[Date.now() - ms, ms, total.succeeded, ...figures, 0, total.failed, total.unknown].join(',')}\n`)
  }
}

function line(span) {
  const latency = options.latencyreport && span.latency ? `, Avg/95% Latency ${(span.latency.mean / 1000).toFixed(2)}/${(span.latency.p95 / 1000).toFixed(2)}ms` : ''
  return `Throughput ${Math.round(span.succeeded / (span.durationMs / 1000))}/s, Aborts/Failures ${span.failed}/${span.unknown}${latency}`
}

/**
 * Waits for a turn, so that there are no more than so many a second; what was not used is not saved
 * up.
 */
function paced(callsPerSecond) {
  if (callsPerSecond >= 2147483647) return () => undefined
  let next = performance.now()
  return async () => {
    const now = performance.now()
    next = Math.max(next, now)
    const mine = next
    next += 1000 / callsPerSecond
    if (mine - now >= 1) await new Promise((resolve) => setTimeout(resolve, mine - now))
  }
}

function readOptions() {
  const numbers = { contestants: 6, maxvotes: 2, displayinterval: 5, duration: 20, warmup: 2, ratelimit: 2147483647, outstanding: 3000, threads: 40 }
  const texts = { mode: 'async', servers: 'localhost', user: '', password: '', statsfile: '' }
  const shape = { latencyreport: { type: 'string', default: 'false' }, help: { type: 'boolean', default: false } }
  for (const [name, value] of Object.entries({ ...numbers, ...texts })) shape[name] = { type: 'string', default: String(value) }
  let values
  try {
    values = parseArgs({ options: shape }).values
  } catch (error) {
    refuse(error.message)
  }
  if (values.help) {
    for (const [name, { default: value }] of Object.entries(shape)) console.log(`  --${name}=${value}`)
    process.exit(0)
  }
  for (const name of Object.keys(numbers)) {
    const value = Number(values[name])
    if (!Number.isInteger(value) || value < (name === 'warmup' ? 0 : 1)) refuse(`--${name} is a whole number, not '${values[name]}'`)
    values[name] = value
  }
  if (values.contestants > 12) refuse('--contestants is at most 12')
  if (!['async', 'sync'].includes(values.mode)) refuse(`--mode is async or sync, not '${values.mode}'`)
  values.latencyreport = values.latencyreport !== 'false'
  return values
}

function refuse(message) {
  console.error(`error: ${message}`)
  process.exit(1)
}
