// The driver against a real server.

import assert from 'node:assert/strict'
import { createServer } from 'node:net'
import { after, before, test, type TestContext } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { CallError, Client, type ClientOptions, ConnectError, decimal, Timestamp, Type, typed, type Row, type Value } from '../src/index.js'
import { Server } from './server.js'

/** What a cluster of several groups cannot do (tests/cluster/left-out). */
const leftOut = (process.env.FERRITE_TESTS_LEFT_OUT ?? '').split('\n')

let server: Server
let client: Client

before(async () => {
  server = await Server.start('--partitions', '3')
  client = await Client.connect(server.address)
  await client.query(`CREATE TABLE things (
    id BIGINT NOT NULL, small SMALLINT, real FLOAT, amount DECIMAL, name VARCHAR(64), data VARBINARY(64),
    at TIMESTAMP, place GEOGRAPHY_POINT, area GEOGRAPHY, PRIMARY KEY (id))`)
  await client.query('PARTITION TABLE things ON COLUMN id')
  await client.query('CREATE PROCEDURE CountName PARTITION ON TABLE things COLUMN id AS SELECT COUNT(*) FROM things WHERE id = ? AND name = ?')
})
after(async () => {
  await client.close()
  await server.stop()
})

/**
 * A client for one test, closed when that ends, however it ends: one that is left would try to
 * reconnect for ever.
 */
async function connect(context: TestContext, options: ClientOptions): Promise<Client> {
  const made = await Client.connect(options)
  context.after(() => made.close({ drain: false }))
  return made
}

interface Thing extends Row {
  ID: bigint
  AMOUNT: string
  NAME: string
}

test('every type goes there and back', async () => {
  const at = new Timestamp(1500000000123456n)
  const area = { rings: [[[0, 0], [1, 0], [1, 1]].map(([longitude, latitude]) => ({ longitude: longitude!, latitude: latitude! }))] }
  const insert = await client.call('THINGS.insert', [
    9007199254740993n, -3, 1.5, decimal('-12345678901234567890.123456789012'), 'hé', Buffer.from([0, 255]), at, { longitude: -71.25, latitude: 42.5 }, area,
  ])
  assert.equal(insert.scalar(), 1n)
  const [row] = await client.query<Thing>('SELECT * FROM things WHERE id = ?', [9007199254740993n])
  assert.ok(row)
  assert.equal(row.ID, 9007199254740993n)
  assert.equal(row.SMALL, -3)
  assert.equal(row.AMOUNT, '-12345678901234567890.123456789012')
  assert.equal(row.NAME, 'hé')
  assert.deepEqual(row.DATA, Buffer.from([0, 255]))
  assert.equal((row.AT as Timestamp).microseconds, at.microseconds)
  assert.equal((row.AT as Timestamp).toISOString(), '2017-07-14T02:40:00.123456Z')
  assert.deepEqual(row.PLACE, { longitude: -71.25, latitude: 42.5 })
  const [ring] = (row.AREA as { rings: { longitude: number }[][] }).rings
  assert.ok(Math.abs(ring![1]!.longitude - 1) < 1e-9)
  await client.call('THINGS.insert', [2, null, null, null, null, null, null, null, null])
  const [empty] = await client.query('SELECT * FROM things WHERE id = 2')
  assert.deepEqual(Object.values(empty!).slice(1), Array(8).fill(null) as Value[])
})

test('numbers instead of bigint where asked, refused where they would change', async (context) => {
  const numbers = await connect(context, { servers: server.address, bigint: 'number', decimal: 'number' })
  const auto = await connect(context, { servers: server.address, bigint: 'auto' })
  assert.deepEqual(await numbers.query('SELECT COUNT(*) AS n, CAST(1.5 AS DECIMAL) AS d FROM things WHERE id = -1'), [{ N: 0, D: 1.5 }])
  const large = 'SELECT CAST(9007199254740993 AS BIGINT) AS n FROM things WHERE id = 2'
  await client.call('THINGS.upsert', [2, null, null, null, null, null, null, null, null])
  await assert.rejects(numbers.query(large), /too large for a number/)
  assert.deepEqual(await auto.query(large), [{ N: 9007199254740993n }])
})

test('errors say what happened to the transaction', async () => {
  await client.call('THINGS.upsert', [3, null, null, null, null, null, null, null, null])
  await assert.rejects(client.call('THINGS.insert', [3, null, null, null, null, null, null, null, null]), (error: CallError) => {
    assert.equal(error.status, -2)
    assert.equal(error.outcome, 'failed')
    assert.equal(error.procedure, 'THINGS.insert')
    return true
  })
  await assert.rejects(client.call('NoSuchThing'), { name: 'CallError', outcome: 'failed' })
  await assert.rejects(client.query('SELEC 1'), { name: 'CallError', status: -2 })
  await assert.rejects(client.call('THINGS.insert', [NaN]), { name: 'ValueError' })
  await assert.rejects(client.call('THINGS.insert', [2n ** 63n]), { name: 'ValueError' })
  await assert.rejects(client.call('THINGS.insert', [decimal('1.1234567890123')]), { name: 'ValueError' })
  // A refused parameter leaves the connection as it was.
  await client.ping()
})

test('typed functions, iteration', async () => {
  const count = client.procedure<[id: number, name: string]>('CountName')
  await client.call('THINGS.upsert', [10, null, null, null, 'ten', null, null, null, null])
  assert.equal((await count(10, 'ten')).scalar(), 1n)
  const sets = Array.from({ length: 500 }, (_, id) => [1000 + id, null, null, null, `name ${id}`, null, null, null, null])
  let inserted = 0n
  for await (const result of client.callEach('THINGS.insert', sets, { concurrency: 50 })) inserted += result.scalar() as bigint
  assert.equal(inserted, 500n)
})

const rowsOfAll = 'arrays and columns of rows of all partitions'
test(rowsOfAll, { skip: leftOut.includes(rowsOfAll) }, async () => {
  for (let id = 1000; id < 1500; id += 1) void client.call('THINGS.upsert', [id, null, null, null, `name ${id - 1000}`, null, null, null, null])
  const [row] = await client.query('SELECT COUNT(*) AS n FROM things WHERE id IN ?', [typed(Type.BIGINT, [1000, 1001, 5])])
  assert.equal(row!.N, 2n)
  const table = (await client.call('@AdHoc', ['SELECT id, name FROM things WHERE id BETWEEN 1000 AND 1499 ORDER BY id'])).table
  assert.equal(table.rowCount, 500)
  assert.equal(table.column('name')[499], 'name 499')
  assert.throws(() => table.column('nothing'), /there are ID, NAME/)
})

test('calls on every partition', async () => {
  const legs = await client.callAllPartitions('CountName', ['nobody'])
  assert.deepEqual(legs.map((leg) => leg.partition).sort(), [0, 1, 2])
  for (const { result } of legs) assert.equal(result.scalar(), 0n)
})

test('room: calls wait in order, or are refused', async (context) => {
  const narrow = await connect(context, { servers: server.address, maxOutstanding: 2 })
  const strict = await connect(context, { servers: server.address, maxOutstanding: 2, whenFull: 'reject' })
  const all = await Promise.all(Array.from({ length: 100 }, () => narrow.call('@Ping')))
  assert.equal(all.length, 100)
  assert.equal(narrow.outstanding, 0)
  const results = await Promise.allSettled(Array.from({ length: 5 }, () => strict.call('@Ping')))
  assert.equal(results.filter((result) => result.status === 'rejected' && result.reason.outcome === 'not-sent').length, 3)
  await strict.ready()
  await strict.call('@Ping')
})

test('a call that is given up, before and after it was sent', async () => {
  const before = AbortSignal.abort()
  await assert.rejects(client.call('@Ping', [], { signal: before }), { outcome: 'not-sent' })
  const later = new AbortController()
  const call = client.call('@Ping', [], { signal: later.signal })
  later.abort()
  await assert.rejects(call, { outcome: 'unknown' })
  await client.ping()
})

test('a call without an answer in time ends as unknown', async (context) => {
  // A listener that logs clients in and then says nothing.
  const login = Buffer.from('0000001f' + '00' + '00' + '00000000' + '0000000000000001' + '0000018bcfe56800' + '7f000001' + '00000001' + '31', 'hex')
  const silent = createServer((socket) => {
    socket.once('data', () => socket.write(login))
    socket.on('error', () => {})
  })
  context.after(() => silent.close())
  await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve))
  const { port } = silent.address() as { port: number }
  const waiting = await connect(context, { servers: `127.0.0.1:${port}`, affinity: false, discover: false })
  await assert.rejects(waiting.call('Vote', [], { timeoutMs: 60 }), { outcome: 'unknown', status: -16 })
  assert.equal(waiting.statistics().unknown, 1)
})

test('statistics as totals and as intervals', async (context) => {
  const counting = await connect(context, { servers: server.address })
  await Promise.all(Array.from({ length: 10 }, () => counting.call('@Ping')))
  await counting.call('NoSuchThing').catch(() => {})
  const first = counting.statistics({ interval: true })
  assert.deepEqual([first.succeeded, first.failed, first.outstanding], [10, 1, 0])
  assert.ok(first.latency.p99 >= first.latency.p50 && first.latency.max >= first.latency.p99999)
  assert.equal(counting.statistics({ interval: true }).succeeded, 0)
  assert.equal(counting.statistics().procedures.find((each) => each.procedure === '@Ping')!.succeeded, 10)
})

test('close waits for answers, and refuses what comes later', async (context) => {
  const closing = await connect(context, { servers: server.address })
  const calls = Promise.all(Array.from({ length: 200 }, () => closing.call('@Ping')))
  await closing.close()
  assert.equal((await calls).length, 200)
  await assert.rejects(closing.call('@Ping'), { outcome: 'not-sent' })
})

test('no server there', async () => {
  await assert.rejects(Client.connect('127.0.0.1:1'), (error: Error) => error instanceof ConnectError && /could be reached.*check that a server listens there/.test(error.message))
  await assert.rejects(Client.connect('nosuchhost.invalid'), /check the host's name/)
  await assert.rejects(Client.connect('what is this:x'), /is not a server/)
  await assert.rejects(Client.connect('localhost:99999'), /a port from 1 to 65535/)
})

test('parameters that are not in an array are refused, not dropped', async (context) => {
  const client = await connect(context, { servers: server.address })
  await assert.rejects(client.call('@Ping', 1n as unknown as []), { name: 'ValueError', message: /of @Ping must be an array/ })
  await assert.rejects(client.query('SELECT ? FROM t', 1n as unknown as []), { name: 'ValueError', message: /must be an array/ })
})

test('a server killed and started again: every call ends once, every acknowledged row is there', async (context) => {
  const own = await Server.start()
  const caller = await connect(context, { servers: own.address, reconnect: { minMs: 10, maxMs: 100 } })
  try {
    await caller.query('CREATE TABLE kept (id BIGINT NOT NULL PRIMARY KEY)')
    const acknowledged: number[] = []
    const ends = { answered: 0, unknown: 0, 'not-sent': 0, failed: 0 }
    let next = 0
    const worker = async (until: () => boolean): Promise<void> => {
      while (!until()) {
        const id = next++
        try {
          await caller.call('KEPT.insert', [id], { timeoutMs: 20_000 })
          acknowledged.push(id)
          ends.answered += 1
        } catch (error) {
          ends[(error as CallError).outcome] += 1
          await turn()
        }
      }
    }
    for (let round = 0; round < 3; round++) {
      const goal = acknowledged.length + 2000
      let killed = false
      const workers = Array.from({ length: 50 }, () => worker(() => killed && acknowledged.length >= goal + 1000))
      while (acknowledged.length < goal) await turn()
      await own.kill()
      killed = true
      await own.restart()
      await Promise.all(workers)
    }
    assert.equal(ends.failed, 0)
    assert.equal(ends.answered + ends.unknown + ends['not-sent'], next)
    const there = new Set((await caller.query('SELECT id FROM kept')).map((row) => Number(row.ID)))
    assert.deepEqual(acknowledged.filter((id) => !there.has(id)), [])
    assert.ok(there.size <= acknowledged.length + ends.unknown)
    assert.equal(caller.statistics().connections[0]!.reconnects >= 3, true)
  } finally {
    await caller.close()
    await own.stop()
  }
})
