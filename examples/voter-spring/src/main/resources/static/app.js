// Shows the results as they come, every 400 milliseconds. Knows the two addresses /api/results and
// /api/generator, and nothing else of the server.

const REFRESH_MS = 400
const KEPT = 150 // A minute of refreshes.
const COLOURS = ['#1d4ed8', '#b91c1c', '#047857', '#7e22ce', '#b45309', '#0e7490', '#be185d', '#4d7c0f', '#4338ca', '#a21caf', '#525252', '#9a3412']
const MAP = [
  'AK .. .. .. .. .. .. .. .. .. ME',
  '.. .. .. .. .. .. .. .. .. VT NH',
  'WA ID MT ND MN IL WI MI NY RI MA',
  'OR NV WY SD IA IN OH PA NJ CT ..',
  'CA UT CO NE MO KY WV VA MD DE ..',
  '.. AZ NM KS AR TN NC SC DC .. ..',
  '.. .. .. OK LA MS AL GA .. .. ..',
  'HI .. .. TX .. .. .. .. FL .. ..',
].map((row) => row.split(' '))
const NAMES = 'AK Alaska|AL Alabama|AR Arkansas|AZ Arizona|CA California|CO Colorado|CT Connecticut|DC District of Columbia|DE Delaware|FL Florida|GA Georgia|HI Hawaii|IA Iowa|ID Idaho|IL Illinois|IN Indiana|KS Kansas|KY Kentucky|LA Louisiana|MA Massachusetts|MD Maryland|ME Maine|MI Michigan|MN Minnesota|MO Missouri|MS Mississippi|MT Montana|NC North Carolina|ND North Dakota|NE Nebraska|NH New Hampshire|NJ New Jersey|NM New Mexico|NV Nevada|NY New York|OH Ohio|OK Oklahoma|OR Oregon|PA Pennsylvania|RI Rhode Island|SC South Carolina|SD South Dakota|TN Tennessee|TX Texas|UT Utah|VA Virginia|VT Vermont|WA Washington|WI Wisconsin|WV West Virginia|WY Wyoming'
const STATES = new Map(NAMES.split('|').map((entry) => [entry.slice(0, 2), entry.slice(3)]))

const element = (id) => document.getElementById(id)
const whole = new Intl.NumberFormat('en')
const percent = new Intl.NumberFormat('en', { style: 'percent', minimumFractionDigits: 1, maximumFractionDigits: 1 })
const short = (milliseconds) => milliseconds.toFixed(milliseconds < 10 ? 1 : 0)
const colour = (contestant) => COLOURS[(contestant - 1) % COLOURS.length]

const tiles = new Map() // State: its button, its place, what is said of it.
const history = [] // Moments and totals, for the rate.
const rates = []
const gaps = []
let lastShown = 0
let lastSpoken = 0
let generating = false

drawMap()
setTheme(localStorage.getItem('theme') ?? (matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light'))
element('theme').addEventListener('click', () => setTheme(document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark', true))
element('generator').addEventListener('click', switchGenerator)
refresh()

/** Each refresh begins 400 ms after the last one began, or at once if that one took longer. */
async function refresh() {
  const began = performance.now()
  try {
    const response = await fetch('api/results', { signal: AbortSignal.timeout(10_000) })
    if (!response.ok) throw new Error((await response.json().catch(() => ({}))).detail ?? `status ${response.status}`)
    show(await response.json())
    element('status').classList.remove('broken')
  } catch (error) {
    element('status').textContent = `No results: ${error.message}. Trying again.`
    element('status').classList.add('broken')
  }
  setTimeout(refresh, Math.max(0, REFRESH_MS - (performance.now() - began)))
}

function show(page) {
  const now = performance.now()
  showFigures(page, now)
  showStandings(page)
  showStates(page)
  const generator = element('generator')
  generating = page.generator.running
  generator.disabled = false
  generator.setAttribute('aria-pressed', String(generating))
  generator.textContent = generating ? 'Stop casting votes' : 'Cast votes'
  const leader = page.total > 0 ? page.standings[0] : undefined
  element('status').textContent = leader ? `${leader.name} leads with ${percent.format(leader.votes / page.total)} of the votes` : 'No votes yet'
  if (leader && now - lastSpoken > 15_000) {
    lastSpoken = now
    element('spoken').textContent = `${leader.name} leads with ${percent.format(leader.votes / page.total)} of ${whole.format(page.total)} votes`
  }
}

function showFigures(page, now) {
  element('total').textContent = whole.format(page.total)
  history.push([now, page.total])
  if (history.length > KEPT) history.shift()
  // Over the last two seconds, so that a refresh that came late does not look like a pause of the
  // database.
  const since = history.findLast(([moment]) => now - moment >= 2000) ?? history[0]
  if (now - since[0] >= 1000) {
    rates.push(((page.total - since[1]) / (now - since[0])) * 1000)
    if (rates.length > KEPT) rates.shift()
    element('rate').textContent = whole.format(Math.round(rates.at(-1)))
    drawSparkline()
  }
  element('latency').textContent = `${short(page.driver.p50Milliseconds)} / ${short(page.driver.p99Milliseconds)} ms`
  if (lastShown > 0) {
    gaps.push(now - lastShown)
    if (gaps.length > KEPT) gaps.shift()
    const cadence = element('cadence')
    const mean = gaps.reduce((sum, gap) => sum + gap, 0) / gaps.length
    cadence.textContent = `${Math.round(mean)} ms`
    Object.assign(cadence.dataset, { mean: mean.toFixed(1), worst: Math.max(...gaps).toFixed(1), count: gaps.length })
  }
  lastShown = now
}

function drawSparkline() {
  const most = Math.max(1, ...rates)
  const points = rates.map((rate, at) => `${((300 * at) / Math.max(1, rates.length - 1)).toFixed(1)} ${(46 - (42 * Math.max(0, rate)) / most).toFixed(1)}`)
  const line = `M${points.join('L')}`
  document.querySelector('#sparkline .line').setAttribute('d', line)
  document.querySelector('#sparkline .area').setAttribute('d', `${line}L300 48L0 48Z`)
}

function showStandings(page) {
  const body = document.querySelector('#standings tbody')
  while (body.rows.length > page.standings.length) body.deleteRow(-1)
  page.standings.forEach(({ contestant, name, votes }, at) => {
    const row = body.rows[at] ?? newRow(body)
    const share = page.total > 0 ? votes / page.total : 0
    const [place, who, count, part, graph] = row.cells
    place.textContent = at + 1
    who.firstChild.textContent = contestant
    who.firstChild.style.background = colour(contestant)
    who.lastChild.textContent = name
    count.textContent = whole.format(votes)
    part.textContent = percent.format(share)
    const bar = graph.firstChild.firstChild
    bar.style.background = colour(contestant)
    bar.style.transform = `scaleX(${page.total > 0 ? votes / page.standings[0].votes : 0})`
  })
}

function newRow(body) {
  const row = body.insertRow()
  row.innerHTML = '<td></td><td><span class="badge"></span><span></span></td><td class="number"></td><td class="number"></td><td><div class="track"><div class="bar"></div></div></td>'
  return row
}

function drawMap() {
  const map = element('map')
  MAP.forEach((states, row) => {
    states.forEach((state, column) => {
      if (state === '..') return
      const tile = document.createElement('button')
      tile.type = 'button'
      tile.tabIndex = tiles.size === 0 ? 0 : -1
      tile.style.gridArea = `${row + 1} / ${column + 1}`
      tile.innerHTML = `${state} <small>–</small>`
      tile.setAttribute('aria-label', `${state} –, ${STATES.get(state)}: no votes`)
      tiles.set(state, { tile, row, column, text: `${STATES.get(state)}: no votes` })
      tile.addEventListener('focus', () => choose(state))
      tile.addEventListener('mouseenter', () => (element('detail').textContent = tiles.get(state).text))
      tile.addEventListener('keydown', (event) => move(event, state))
      map.append(tile)
    })
  })
}

function showStates(page) {
  const names = new Map(page.standings.map(({ contestant, name }) => [contestant, name]))
  const leaders = Map.groupBy ? Map.groupBy(page.states, ({ state }) => state) : page.states.reduce((all, one) => all.set(one.state, [...(all.get(one.state) ?? []), one]), new Map())
  const most = Math.max(1, ...page.states.map(({ votes }) => votes))
  for (const [state, entry] of tiles) {
    const first = leaders.get(state)?.[0]
    if (!first) continue
    const tied = leaders.get(state).length > 1
    entry.tile.lastChild.textContent = first.contestant + (tied ? '=' : '')
    // Mixed with a dark grey, never with white: the letters stay readable.
    entry.tile.style.background = `color-mix(in oklab, ${colour(first.contestant)} ${Math.round(50 + 50 * Math.sqrt(first.votes / most))}%, #2b3442)`
    const who = leaders.get(state).map(({ contestant }) => names.get(contestant)).join(' and ')
    entry.text = `${STATES.get(state)}: ${who} ${tied ? 'lead' : 'leads'} with ${whole.format(first.votes)} votes`
    entry.tile.setAttribute('aria-label', `${entry.tile.textContent}, ${entry.text}`)
  }
  const focused = document.activeElement?.closest?.('#map button')
  if (focused) for (const { tile, text } of tiles.values()) if (tile === focused) element('detail').textContent = text
}

/** The tile that has the focus is the only one that the tab key stops at. */
function choose(state) {
  for (const [other, { tile }] of tiles) tile.tabIndex = other === state ? 0 : -1
  element('detail').textContent = tiles.get(state).text
}

/**
 * To the nearest state in the direction of the arrow, in the same row or column if there is one.
 */
function move(event, state) {
  const direction = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key]
  if (!direction) return
  event.preventDefault()
  const here = tiles.get(state)
  const distance = ({ row, column }) => {
    const along = (row - here.row) * direction[0] + (column - here.column) * direction[1]
    const aside = Math.abs((row - here.row) * direction[1]) + Math.abs((column - here.column) * direction[0])
    return along > 0 ? along + 11 * aside : Infinity
  }
  const nearest = [...tiles.values()].reduce((best, entry) => (distance(entry) < distance(best) ? entry : best), here)
  if (distance(nearest) < Infinity) nearest.tile.focus()
}

async function switchGenerator() {
  await fetch('api/generator', { method: 'PUT', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ running: !generating }) })
}

function setTheme(theme, remember = false) {
  document.documentElement.dataset.theme = theme
  element('theme').textContent = theme === 'dark' ? 'Light theme' : 'Dark theme'
  if (remember) localStorage.setItem('theme', theme)
}
