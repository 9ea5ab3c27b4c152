// Starts the application as a user would, listens to its events, stops it, and compares. Ends with
// a non-zero code if something is wrong.

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { get } from 'node:http'
import { createInterface } from 'node:readline'

const child = spawn(new URL('run', import.meta.url).pathname, ['--port=0'], { stdio: ['ignore', 'pipe', 'inherit'] })
const giveUp = setTimeout(() => child.kill('SIGKILL'), 240_000)
const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
const address = (await lines.next()).value
assert.match(address ?? '', /^http:/)

const [page] = await once(get(address), 'response')
assert.equal(page.statusCode, 200)
page.resume()
const [nothing] = await once(get(`${address}nothing`), 'response')
assert.equal(nothing.statusCode, 404)
nothing.resume()

const [stream] = await once(get(`${address}events`), 'response')
const events = []
const began = performance.now()
for await (const line of createInterface({ input: stream })) {
  if (line.startsWith('data: ')) events.push(JSON.parse(line.slice(6)))
  // Votes come in all the while; how many between two events is the machine's affair.
  if (events.length >= 6 && events.at(-1).total > events[0].total) break
}
stream.destroy()
const each = (performance.now() - began) / events.length
assert.equal(events[0].standings.length, 6)
assert.ok(events.every(({ total }, at) => at === 0 || total >= events[at - 1].total), 'totals never go down')

child.kill('SIGTERM')
const last = (await lines.next()).value
clearTimeout(giveUp)
const [, accepted, there] = /^(\d+) votes accepted, (\d+) in the table/.exec(last)
assert.equal(accepted, there)
await once(child, 'exit')
console.log(`right: ${last}; an event every ${each.toFixed(0)} ms`)
