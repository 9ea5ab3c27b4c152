// The bytes that real clients send and accept, shared with the server's own tests.

import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test as always } from 'node:test'
import { fileURLToPath } from 'node:url'
import { Ring, token, tokenOfInteger } from '../src/hash.js'
import { FrameSplitter, readLogin, readResponse, type Response, type Table } from '../src/reader.js'
import { Topology } from '../src/topology.js'
import { parseDecimal, Timestamp, Type, typed, type Parameter, type TypeCode, type Value } from '../src/types.js'
import { encodeName, loginFrame, writeCall, Writer } from '../src/writer.js'

const here = dirname(fileURLToPath(import.meta.url))
const crates = join(here, '../../../../../crates')
// The vectors stand beside the server's sources: a copy of this folder alone does not have them.
const missing = existsSync(crates) ? false : `the vectors are in a checkout of the repository, and ${crates} is not there`
const test = (name: string, body: () => void): void => void always(name, { skip: missing }, body)
const load = (file: string): any => (missing ? {} : JSON.parse(readFileSync(join(crates, file), 'utf8')))
const vectors = load('wire/tests/data/vectors.json')
const MODES = { bigint: 'bigint', decimal: 'string' } as const

interface Described {
  type: keyof typeof Type | 'VOLTTABLE'
  element?: keyof typeof Type
  value?: any
}

function native(type: string, value: any): Parameter {
  if (value === null || value === undefined) return null
  if (type === 'TIMESTAMP' || type === 'BIGINT') return BigInt(value)
  if (type === 'VARBINARY') return Buffer.from(value.hex, 'hex')
  if (type === 'GEOGRAPHY_POINT') return { longitude: value.lng, latitude: value.lat }
  return value
}

test('parameters as real clients send them', () => {
  let compared = 0
  for (const vector of vectors.parameter_sets as { id: string; hex: string; clients?: string[]; params?: Described[] }[]) {
    // Polygons are compared below; tables are no parameters of this driver; a few clients send
    // malformed arrays. Where clients differ (the null of FLOAT, array counts), this driver does as
    // Java and Python do.
    if (!vector.params || !vector.clients?.some((name) => /^(Java|Python)/.test(name))) continue
    if (/volttable|geography(?!_point)/.test(vector.id) && !vector.id.startsWith('null')) continue
    const parameters = vector.params.map(({ type, element, value }): Parameter => {
      if (type === 'ARRAY') return typed(Type[element!] as TypeCode, value.map((each: any) => native(element!, each)))
      return typed(Type[type as keyof typeof Type] as TypeCode, native(type, value))
    })
    const writer = new Writer(64)
    writeCall(writer, encodeName('P'), 1, parameters)
    assert.equal(writer.take().subarray(4 + 1 + 5 + 8).toString('hex'), vector.hex, vector.id)
    compared += 1
  }
  assert.ok(compared > 35, `${compared} vectors`)
})

test('polygons on the sphere', () => {
  for (const [index, rings] of [
    [0, [[[0, 0], [1, 0], [1, 1]]]],
    [1, [[[0, 0], [10, 0], [10, 10], [0, 10]], [[2, 2], [2, 4], [4, 4], [4, 2]]]],
  ] as [number, number[][][]][]) {
    const polygon = { rings: rings.map((ring) => ring.map(([longitude, latitude]) => ({ longitude: longitude!, latitude: latitude! }))) }
    const writer = new Writer(64)
    writeCall(writer, encodeName('P'), 1, [polygon])
    const sent = writer.take().subarray(4 + 1 + 5 + 8 + 2 + 1 + 4)
    const wanted = Buffer.from(vectors.geography[index].hex, 'hex')
    assert.equal(sent.length, wanted.length)
    // Sine and cosine may differ in their last bit between libraries: everything but the vertices'
    // last bytes is compared exactly.
    let different = 0
    for (let at = 0; at < sent.length; at++) if (sent[at] !== wanted[at]) different += 1
    assert.ok(different <= rings.flat().length * 3, `${different} bytes differ`)
  }
})

test('answers that real clients accept', () => {
  for (const vector of vectors.responses as any[]) {
    const frame = Buffer.from(vector.hex, 'hex')
    const seen: Response[] = []
    new FrameSplitter().push(frame, (bytes, start, end) => seen.push(readResponse(bytes, start, end, MODES)))
    assert.equal(seen.length, 1, vector.id)
    const [response] = seen as [Response]
    const wanted = vector.decoded
    assert.equal(response.status, wanted.status, vector.id)
    assert.equal(response.statusText, wanted.status_string ?? null, vector.id)
    if (!wanted.tables) continue
    assert.equal(response.tables.length, wanted.tables.length, vector.id)
    response.tables.forEach((table, index) => {
      const described = wanted.tables[index]
      assert.deepEqual(table.columns.map((column) => column.name), described.columns.map((column: any) => column.name), vector.id)
      if (!described.rows) return
      const rows = Array.from(table.arrays())
      assert.equal(rows.length, described.rows.length)
      rows.forEach((row, r) => row.forEach((value, c) => compare(value, described.rows[r][c], `${vector.id} row ${r} column ${c}`)))
    })
  }
})

function compare(value: Value, wanted: any, where: string): void {
  if (value === null || wanted === null) assert.equal(value, wanted, where)
  else if (typeof value === 'bigint') assert.equal(value, BigInt(wanted), where)
  else if (value instanceof Timestamp) assert.equal(value.microseconds, BigInt(wanted), where)
  else if (value instanceof Buffer) {
    if (wanted.hex !== undefined) assert.equal(value.toString('hex'), wanted.hex, where)
  } else if (typeof value === 'string' && /^-?\d+\.\d+$/.test(String(wanted))) assert.equal(parseDecimal(value), parseDecimal(wanted), where)
  else if (typeof value === 'object') assert.ok('rings' in value || ('longitude' in value && value.longitude === wanted.lng), where)
  else assert.equal(value, wanted, where)
}

test('every cut of a stream gives the same frames, and no prefix of an answer is taken for one', () => {
  const stream = Buffer.concat((vectors.responses as any[]).slice(0, 6).map((vector) => Buffer.from(vector.hex, 'hex')))
  for (const size of [1, 2, 3, 5, 64, 1000]) {
    const splitter = new FrameSplitter()
    let count = 0
    for (let at = 0; at < stream.length; at += size) splitter.push(stream.subarray(at, at + size), () => (count += 1))
    assert.equal(count, 6, `pieces of ${size}`)
  }
  for (const vector of vectors.responses as any[]) {
    const body = Buffer.from(vector.hex, 'hex').subarray(4)
    for (let end = 0; end < body.length; end++) {
      assert.throws(() => {
        const response = readResponse(body, 0, end, MODES)
        for (const table of response.tables) Array.from(table.arrays())
      }, { name: 'ProtocolError' })
    }
  }
})

test('logins', () => {
  const wanted = vectors.logins.find((login: any) => login.id === 'v1_sha256')
  assert.equal(loginFrame('alice', vectors.password_hashes.password).toString('hex'), wanted.hex)
  const answer = Buffer.from(vectors.login_responses[0].hex, 'hex')
  assert.deepEqual(readLogin(answer, 4, answer.length), {
    hostId: 0,
    connectionId: 1n,
    clusterStart: 1700000000000n,
    leaderAddress: 0x7f000001,
    build: (readLogin(answer, 4, answer.length) as any).build,
  })
  for (const failure of vectors.login_failures) {
    const frame = Buffer.from(failure.hex, 'hex')
    assert.deepEqual(readLogin(frame, 4, frame.length), { refused: failure.code, reason: null })
  }
  // As a node answers that is not open yet.
  const waits = Buffer.from('00000015' + '0004' + '0000000f' + Buffer.from('this node waits').toString('hex'), 'hex')
  assert.deepEqual(readLogin(waits, 4, waits.length), { refused: 4, reason: 'this node waits' })
  // Of another server, something else.
  for (const other of ['0004' + 'ffff00', '0004' + '00000100' + '41', '0004' + 'ffffffff']) {
    const frame = Buffer.from('00000000' + other, 'hex')
    assert.deepEqual(readLogin(frame, 4, frame.length), { refused: 4, reason: null })
  }
})

test('tokens and rings', () => {
  let compared = 0
  for (const vector of load('value/tests/data/hash.json').vectors) {
    if (vector.token === null || vector.hashed_bytes === undefined || vector.hashed_bytes === null) continue
    assert.equal(token(Buffer.from(vector.hashed_bytes, 'hex')), vector.token, vector.desc)
    compared += 1
  }
  assert.ok(compared > 60, `${compared} tokens`)
  assert.equal(tokenOfInteger(5551234567), -1381700295)
  assert.equal(tokenOfInteger(-1n), -1595624838)
  assert.equal(tokenOfInteger(-1), -1595624838)
  assert.equal(tokenOfInteger(9223372036854775807n), 1819732939)
  const { small } = load('value/tests/data/rings.json')
  const ring = Ring.parse(Buffer.from(small.raw_hex, 'hex'))!
  for (const [at, partition] of small.entries) assert.equal(ring.owner(at), partition)
  assert.equal(ring.owner(2147483647), small.entries.at(-1)[1])
  assert.equal(Ring.parse(Buffer.from('00000001', 'hex')), null)
})

// A wrong guess is passed on by the server, and so is harmless; for what a key is meant to be there
// is none.
test('hosts of keys', () => {
  const { small } = load('value/tests/data/rings.json')
  const raw = Buffer.from(small.raw_hex, 'hex')
  const ring = Ring.parse(raw)!
  const table = (rows: unknown[][]): Table => ({ arrays: () => rows[Symbol.iterator]() }) as unknown as Table
  let compared = 0
  for (const { desc, param_type: partitionParameterType, value, token: wanted } of load('value/tests/data/hash.json').vectors) {
    // Numbers that are no keys, numbers for texts and bytes for integers go where they go.
    if (/given for|long value for varchar|LE bytes/.test(desc)) continue
    const topology = new Topology()
    topology.learnTopology([table([0, 1, 2].map((partition) => [partition, null, `${100 + partition}:x`])), table([['ELASTIC', raw]])])
    const remarks = JSON.stringify({ singlePartition: true, partitionParameter: 1, partitionParameterType })
    topology.learnProcedures([table([[null, null, 'P', null, null, null, remarks]])])
    const ofBytes = partitionParameterType === Type.VARBINARY || desc.includes('bytes for')
    const isInteger = partitionParameterType !== Type.STRING && !ofBytes
    const key: Parameter = wanted === null ? null : ofBytes ? Buffer.from(value, 'hex') : value
    const owner = wanted === null ? 0 : ring.owner(wanted)
    const given: Parameter[] = [key, typed(partitionParameterType as TypeCode, key as Value)]
    // An integer may come as a number, as a bigint and as a text.
    if (isInteger && wanted !== null) given.push(BigInt(value), String(value), ` +${value} `.replace('+-', '-'))
    for (const each of given) assert.equal(topology.host('P', ['other', each]), 100 + owner, `${desc} ${String(value)} as ${typeof each}`)
    compared += 1
  }
  assert.ok(compared > 70, `${compared} keys`)
})
