// A page's requests for as long as it is told, and what they took; then the totals. Ends with a
// non-zero code if something is wrong. The first ten requests meet code that the JVM has not
// compiled yet; they are not counted.

const [address, seconds] = process.argv.slice(2)
const LIMIT_MS = 400
const WARMUP_REQUESTS = 10
const took = []
let answered = 0
let warm = 0

const until = performance.now() + Number(seconds) * 1000
let shown = performance.now()
while (performance.now() < until) {
  const began = performance.now()
  const response = await fetch(`${address}api/results`)
  const page = await response.json()
  if (!response.ok) throw new Error(`${response.status}: ${JSON.stringify(page)}`)
  if (warm++ >= WARMUP_REQUESTS) took.push(performance.now() - began)
  answered = page.total
  if (performance.now() - shown > 10_000) {
    shown = performance.now()
    console.log(`${took.length} requests, p99 ${percentile(99)} ms, ${page.total} votes, ${page.driver.callsPerSecond} calls/s, vote p99 ${page.driver.p99Milliseconds} ms`)
  }
  await new Promise((resolve) => setTimeout(resolve, Math.max(0, LIMIT_MS - (performance.now() - began))))
}
await fetch(`${address}api/generator`, { method: 'PUT', headers: { 'content-type': 'application/json' }, body: '{"running":false}' })
let page
const deadline = performance.now() + 30_000
do {
  page = await (await fetch(`${address}api/results`)).json()
  if (performance.now() > deadline) throw new Error(`the generator did not stop: ${JSON.stringify(page.generator)}`)
} while (page.generator.running || page.generator.outstanding > 0 || page.total < page.generator.accepted)
const totals = await (await fetch(`${address}api/totals`)).json()
const { accepted, failed, unknown } = page.generator
console.log(`${took.length} requests: p50 ${percentile(50)} ms, p99 ${percentile(99)} ms, longest ${percentile(100)} ms`)
console.log(`${accepted} votes accepted, ${failed} failed, ${unknown} unknown; page ${page.total}, table ${totals.table}, view ${totals.view}`)
const equal = page.total === totals.table && totals.table === totals.view && totals.table === accepted && failed + unknown === 0
const quick = Number(percentile(99)) <= LIMIT_MS
console.log(`${equal && quick ? 'right' : 'wrong'}: totals ${equal ? 'are equal' : 'differ'}, p99 is ${quick ? 'within' : 'over'} ${LIMIT_MS} ms`)
process.exitCode = equal && quick && answered > 0 ? 0 : 1

function percentile(percent) {
  const sorted = [...took].sort((left, right) => left - right)
  return sorted[Math.min(sorted.length - 1, Math.ceil((sorted.length * percent) / 100) - 1)].toFixed(1)
}
