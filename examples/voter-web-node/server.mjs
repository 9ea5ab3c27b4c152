// Voter on the web: casts votes as fast as the database takes them, and sends what they come to to
// every open page, by server-sent events. The database is asked once per interval, however many
// pages are open, and not at all when none is.

import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { parseArgs } from 'node:util'
import { Client } from 'ferritedb'

const { values: options } = parseArgs({
  options: {
    servers: { type: 'string', default: 'localhost' },
    port: { type: 'string', default: '8080' },
    interval: { type: 'string', default: '400' },
    callers: { type: 'string', default: '1000' },
  },
})
const NAMES = 'Ada Lindqvist,Bruno Valdez,Carmen Okafor,Dmitri Hale,Esther Moreau,Felix Tanaka'
const page = readFileSync(new URL('index.html', import.meta.url))
const client = await Client.connect({ servers: options.servers, bigint: 'number' })
const contestants = (await client.call('Initialize', [6, NAMES])).scalar()
const areaCodes = (await client.query('SELECT area_code FROM area_code_state')).map((row) => row.AREA_CODE)
const vote = client.procedure('Vote')
const counts = { accepted: 0, rejected: 0, failed: 0 }
const open = new Set()
let running = true
let asking = false

const below = (bound) => Math.floor(Math.random() * bound)
async function caller() {
  while (running) {
    try {
      const answer = (await vote(areaCodes[below(areaCodes.length)] * 10_000_000 + below(10_000_000), 1 + below(contestants), 2)).scalar()
      counts[answer === 0 ? 'accepted' : 'rejected'] += 1
    } catch {
      counts.failed += 1
      await new Promise((resolve) => setTimeout(resolve, 100)) // The driver connects again; until then there is nothing to hurry for.
    }
  }
}

async function send() {
  // While the database is away no questions pile up.
  if (open.size === 0 || asking) return
  asking = true
  let event
  try {
    const standings = (await client.call('Results')).rows().map((row) => ({ contestant: row.CONTESTANT_NUMBER, name: row.CONTESTANT_NAME, votes: row.TOTAL_VOTES }))
    event = `data: ${JSON.stringify({ standings, total: standings.reduce((sum, { votes }) => sum + votes, 0), ...counts })}\n\n`
  } catch (error) {
    event = `event: broken\ndata: ${JSON.stringify(error.message)}\n\n`
  } finally {
    asking = false
  }
  // A page that does not read its events misses some; they would only be older than the next.
  for (const response of open) if (!response.writableNeedDrain) response.write(event)
}

const web = createServer((request, response) => {
  const { pathname } = new URL(request.url, 'http://localhost')
  if (request.method !== 'GET') response.writeHead(405, { allow: 'GET' }).end()
  else if (pathname === '/') response.writeHead(200, { 'content-type': 'text/html; charset=utf-8' }).end(page)
  else if (pathname === '/events') {
    response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' })
    open.add(response)
    response.on('close', () => open.delete(response))
  } else response.writeHead(404).end()
})
web.listen(Number(options.port), () => console.log(`http://localhost:${web.address().port}/`))
const sending = setInterval(send, Number(options.interval))
const callers = Array.from({ length: Number(options.callers) }, caller)

for (const signal of ['SIGINT', 'SIGTERM']) {
  process.once(signal, async () => {
    running = false
    clearInterval(sending)
    for (const response of open) response.end()
    web.close()
    await Promise.all(callers)
    const there = (await client.call('@AdHoc', ['SELECT COUNT(*) FROM votes'])).scalar()
    console.log(`${counts.accepted} votes accepted, ${there} in the table`)
    await client.close()
  })
}
