// Load from one Node.js process: how many calls a second, and what each costs this process.
//
//   node bench/load.mjs --server host:port [--workload voter|read|write|hello]
//     [--seconds 10] [--warmup 1] [--outstanding 3000]
//
// The server must hold the workload's tables; `ferrite bench node` makes them, starts any number of
// these processes, and checks what they counted. With --json the process says `ready`, waits for a
// line on its standard input, and ends with its counts as JSON.
import { createInterface } from 'node:readline'
import { parseArgs } from 'node:util'
import { Client } from '../dist/esm/index.js'

const { values } = parseArgs({
  options: {
    server: { type: 'string', default: 'localhost' },
    workload: { type: 'string', default: 'voter' },
    seconds: { type: 'string', default: '10' },
    warmup: { type: 'string', default: '1' },
    outstanding: { type: 'string', default: '3000' },
    json: { type: 'boolean', default: false },
  },
})
const numberOf = (name, least) => {
  const number = Number(values[name])
  if (!(number >= least)) fail(`--${name} needs a number of at least ${least}`)
  return number
}
const fail = (message) => {
  console.error(message)
  process.exit(1)
}
const seconds = numberOf('seconds', 0.1)
const warmup = numberOf('warmup', 0)
const outstanding = numberOf('outstanding', 1)

const client = await Client.connect({ servers: values.server, maxOutstanding: outstanding, bigint: 'number' }).catch((error) => fail(error.message))
const below = (bound) => (Math.random() * bound) | 0
const random = (list) => list[below(list.length)]

// What each workload counts beside its calls is what `ferrite bench node` compares with the tables.
const workloads = {
  /**
   * Voter's vote: half of them for a favourite of the area, one in a hundred for a contestant that
   * does not exist.
   */
  async voter() {
    const areas = (await client.query('SELECT area_code FROM area_code_state ORDER BY area_code')).map((row) => row.AREA_CODE)
    const contestants = (await client.query('SELECT COUNT(*) AS n FROM contestants'))[0].N
    const favourites = areas.map((_, place) => (place % 10 < 7 ? 1 + ((place * 31) % contestants) : 1))
    const counts = { accepted: new Array(contestants + 1).fill(0), unknown: new Array(contestants + 1).fill(0), invalid: 0, overLimit: 0, wrong: 0 }
    const vote = client.procedure('Vote')
    return {
      counts,
      async call() {
        const place = below(areas.length)
        const contestant = below(100) === 0 ? 999 : below(2) === 0 ? favourites[place] : 1 + below(contestants)
        try {
          const answer = (await vote(areas[place] * 10_000_000 + below(10_000_000), contestant, 2)).scalar()
          if (answer === 0 && contestant <= contestants) counts.accepted[contestant] += 1
          else if (answer === 1 && contestant === 999) counts.invalid += 1
          else if (answer === 2) counts.overLimit += 1
          else counts.wrong += 1
        } catch (error) {
          if (error.outcome === 'unknown' && contestant <= contestants) counts.unknown[contestant] += 1
          throw error
        }
      },
    }
  },
  /** A value by its key. */
  async read() {
    const counts = { hits: 0, misses: 0, wrong: 0 }
    const { keys, valueBytes } = await pool()
    const select = client.procedure('STORE.select')
    return {
      counts,
      async call() {
        const rows = (await select(random(keys))).rows()
        if (rows.length === 0) counts.misses += 1
        else if (rows.length === 1 && rows[0].VALUE.length === valueBytes) counts.hits += 1
        else counts.wrong += 1
      },
    }
  },
  /** A new value for a key. */
  async write() {
    const counts = { writes: 0, wrong: 0 }
    const { keys, valueBytes } = await pool()
    const material = Buffer.from(Array.from({ length: 1 << 20 }, () => below(127)))
    const upsert = client.procedure('STORE.upsert')
    return {
      counts,
      async call() {
        const from = below(material.length - valueBytes)
        if ((await upsert(random(keys), material.subarray(from, from + valueBytes))).scalar() === 1) counts.writes += 1
        else counts.wrong += 1
      },
    }
  },
  /** The smallest procedure: a row of two words by its key. */
  async hello() {
    const counts = { hits: 0, wrong: 0 }
    const dialects = (await client.query('SELECT dialect FROM helloworld')).map((row) => row.DIALECT)
    const hello = client.procedure('Hello')
    return {
      counts,
      async call() {
        if ((await hello(random(dialects))).rows().length === 1) counts.hits += 1
        else counts.wrong += 1
      },
    }
  },
}

/** All keys, and how many bytes each value has. */
async function pool() {
  const [row] = await client.query('SELECT COUNT(*) AS n, MAX(OCTET_LENGTH(key)) AS k, MAX(OCTET_LENGTH(value)) AS v FROM store')
  const keys = Array.from({ length: row.N }, (_, number) => 'K' + String(number).padStart(row.K - 1))
  return { keys, valueBytes: row.V }
}

if (!Object.hasOwn(workloads, values.workload)) fail(`no workload is named ${values.workload}: ${Object.keys(workloads).join(', ')}`)
const workload = await workloads[values.workload]().catch((error) =>
  fail(`the tables of the workload ${values.workload} are not there (ferrite bench node makes them): ${error.message}`),
)
if (values.json) {
  console.log('ready')
  const input = createInterface({ input: process.stdin })
  await new Promise((resolve) => input.once('line', resolve).once('close', resolve))
  input.close()
}

let running = true
let firstFailure = null
async function caller() {
  while (running) {
    try {
      await workload.call()
    } catch (error) {
      firstFailure ??= error.message
      // A call that fails at once must not keep the others from their turn.
      if (error.outcome === 'not-sent') await new Promise((resolve) => setImmediate(resolve))
    }
  }
}
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms))
const callers = Array.from({ length: outstanding }, caller)
await pause(warmup * 1000)
client.statistics({ interval: true })
const before = client.statistics().succeeded
const cpu = process.cpuUsage()
const began = performance.now()
const bySecond = []
let last = before
for (let second = 1; second <= seconds; second++) {
  await pause(began + second * 1000 - performance.now())
  const now = client.statistics().succeeded
  bySecond.push({ transactions: now - last })
  last = now
  if (values.json) console.log(JSON.stringify({ second, ...bySecond.at(-1) }))
}
await pause(began + seconds * 1000 - performance.now())
const used = process.cpuUsage(cpu)
const report = client.statistics({ interval: true })
running = false
await Promise.all(callers)
await client.close()

const answered = report.succeeded + report.failed
const result = {
  workload: values.workload,
  transactions: report.succeeded,
  failed: report.failed + report.unknown,
  measuredSeconds: report.durationMs / 1000,
  transactionsPerSecond: (report.succeeded / report.durationMs) * 1000,
  cpuMicroseconds: used.user + used.system,
  cpuMicrosecondsPerCall: (used.user + used.system) / Math.max(1, answered),
  latencyMicroseconds: report.latency,
  firstFailure,
  seconds: bySecond,
  counts: workload.counts,
}
if (values.json) console.log(JSON.stringify({ result }))
else {
  const milliseconds = (microseconds) => `${(microseconds / 1000).toFixed(2)} ms`
  console.log(`${Math.round(result.transactionsPerSecond).toLocaleString('en')} ${result.workload} transactions/s, ${result.cpuMicrosecondsPerCall.toFixed(2)} CPU-us each in this process`)
  console.log(`latency p50 ${milliseconds(report.latency.p50)}, p99 ${milliseconds(report.latency.p99)}, max ${milliseconds(report.latency.max)}; ${result.failed} failed`)
  if (firstFailure) console.log(`first failure: ${firstFailure}`)
}
