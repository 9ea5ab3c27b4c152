// Voter from one Node.js process: how many calls a second, and what each costs this process.
// node bench/voter.mjs [--server host:port] [--seconds 10] [--outstanding 3000] [--workload voter|hello]
import { parseArgs } from 'node:util'
import { Client } from '../dist/esm/index.js'

const { values } = parseArgs({
  options: {
    server: { type: 'string', default: 'localhost' },
    seconds: { type: 'string', default: '10' },
    outstanding: { type: 'string', default: '3000' },
    workload: { type: 'string', default: 'voter' },
    json: { type: 'boolean', default: false },
  },
})
const seconds = Number(values.seconds)
const outstanding = Number(values.outstanding)
const client = await Client.connect({ servers: values.server, maxOutstanding: outstanding, bigint: 'number' })
const areaCodes = [205, 212, 213, 312, 415, 617, 702, 808, 907, 971]
const counts = { accepted: 0, rejected: 0, failed: 0 }
const vote = client.procedure('Vote')

let running = true
function next() {
  if (values.workload === 'hello') return client.call('@Ping')
  const phone = areaCodes[(Math.random() * areaCodes.length) | 0] * 10000000 + ((Math.random() * 10000000) | 0)
  return vote(phone, 1 + ((Math.random() * 6) | 0), 2)
}
async function caller() {
  while (running) {
    try {
      const result = await next()
      if (result.scalar() === 0) counts.accepted += 1
      else counts.rejected += 1
    } catch {
      counts.failed += 1
    }
  }
}
const callers = Array.from({ length: outstanding }, caller)
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms))
await pause(1000)
client.statistics({ interval: true })
const cpu = process.cpuUsage()
await pause(seconds * 1000)
const used = process.cpuUsage(cpu)
const report = client.statistics({ interval: true })
running = false
await Promise.all(callers)
await client.close()
const answered = report.succeeded + report.failed
const result = {
  workload: values.workload,
  transactionsPerSecond: Math.round((report.succeeded / report.durationMs) * 1000),
  cpuMicrosecondsPerCall: (used.user + used.system) / answered,
  failed: report.failed,
  latencyMicroseconds: report.latency,
  ...counts,
}
if (values.json) console.log(JSON.stringify(result))
else {
  console.log(`${result.transactionsPerSecond.toLocaleString('en')} ${values.workload} transactions/s, ${result.cpuMicrosecondsPerCall.toFixed(2)} CPU-us each in this process`)
  console.log(`latency p50 ${(report.latency.p50 / 1000).toFixed(2)} ms, p99 ${(report.latency.p99 / 1000).toFixed(2)} ms, max ${(report.latency.max / 1000).toFixed(2)} ms; ${report.failed} failed`)
}
