// A session of postgres.js: what it prints is compared between the servers. argv: the URL of the database, the feature.
const assert = require("node:assert");
const { Readable, Writable } = require("node:stream");
const { pipeline } = require("node:stream/promises");
const postgres = require("postgres");

const notices = [];
const options = { max: 4, onnotice: (notice) => notices.push(notice.code), connection: { application_name: "postgresjs" } };
const sql = postgres(process.argv[2], options);
const show = (value) => console.log(JSON.stringify(value, (_, v) => (typeof v === "bigint" ? `${v}n` : v)));

async function rows() {
  await sql`CREATE TYPE mood AS ENUM ('sad', 'glad')`;
  await sql`CREATE TABLE things (
    id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, small smallint, big bigint, real4 real, real8 double precision,
    price numeric(10, 2), ok boolean, name text, code char(3), blob bytea, born date, at timestamptz, local timestamp,
    doc jsonb, plain json, chip uuid, tags text[], numbers int[], moods mood[], mood mood, address inet, spans int4range)`;
  const given = {
    small: -3, big: "9007199254740993", real4: 1.5, real8: 0.1, price: "12345678.90", ok: true, name: "Zoë 'x' \\ ☃",
    code: "ab", blob: Buffer.from([0, 1, 255]), born: "2024-02-29", at: new Date(Date.UTC(2024, 1, 29, 12, 30, 1, 5)),
    local: "2024-02-29 12:30:01.123456", doc: sql.json({ a: [1, null, "x"], b: { c: true } }), plain: sql.json([1, 2]),
    chip: "123e4567-e89b-12d3-a456-426614174000", tags: ["a", 'b"c', "d,e", "null"], numbers: [1, 2, 3],
    moods: "{sad,glad}", mood: "glad", address: "10.1.2.3/8", spans: "[1,5)",
  };
  const [made] = await sql`INSERT INTO things ${sql(given)} RETURNING *`;
  show(made);
  assert.deepStrictEqual(made.blob, Buffer.from([0, 1, 255]));
  assert.ok(made.at instanceof Date);
  const many = Array.from({ length: 500 }, (_, i) => ({ small: i, name: i % 7 ? `n${i}` : null, tags: [`t${i}`] }));
  const inserted = await sql`INSERT INTO things ${sql(many, "small", "name", "tags")} RETURNING id`;
  assert.strictEqual(inserted.count, 500);
  assert.strictEqual(inserted.command, "INSERT");
  show((await sql`SELECT id, small, name, tags FROM things WHERE small IN ${sql([3, 7, 499])} ORDER BY id`));
  const names = sql`name IS NOT NULL`;
  show(await sql`SELECT ${sql(["small", "name"])} FROM ${sql("things")} WHERE ${names} AND small > ${490} ORDER BY 1`);
  const updated = await sql`UPDATE things SET ${sql({ name: "new", ok: false }, "name", "ok")} WHERE small < ${2}`;
  show([updated.command, updated.count]);
  const values = [[1, "x"], [2, "y"]];
  const renamed = await sql`UPDATE things t SET name = v.name FROM (VALUES ${sql(values)}) AS v (small, name)
    WHERE t.small = v.small::int RETURNING t.small, t.name`;
  show([...renamed].sort((a, b) => a.small - b.small));
  show(await sql`SELECT small, name FROM things ORDER BY id LIMIT 3`.values());
  show((await sql`SELECT 1::int8 AS a, null AS b, ''::text AS c`.raw()).map((row) => row.map((cell) => cell && cell.toString())));
  const described = await sql`SELECT * FROM things WHERE id = ${1}`.describe();
  const own = (oid) => (oid < 16384 ? oid : "of a user");
  show([described.string, described.types, described.columns.map((column) => [column.name, own(column.type)])]);
  show(await sql.unsafe("SELECT $1::int + $2::int AS sum", [1, 2]));
  show(await sql.unsafe("SELECT 1 AS a; SELECT 'two' AS b"));
  show(await sql`SELECT ${null}::text AS nothing, ${true}::bool AS yes, ${sql.typed(["1", "2"], 1009)} AS list`);
  const simple = await sql`SELECT 1.5 AS x, now() IS NOT NULL AS y`.simple();
  show(simple);
  const columns = simple.columns.map((column) => [column.name, column.type]);
  show(columns);
  const big = postgres(process.argv[2], { max: 1, types: { bigint: postgres.BigInt }, transform: postgres.camel });
  show(await big`SELECT 9007199254740993::int8 AS a_big_one, ARRAY[1::int8, 2] AS some_more`);
  await big.end();
  const unprepared = postgres(process.argv[2], { max: 1, prepare: false, fetch_types: false });
  show(await unprepared`SELECT ${"x"}::text AS a, ${5}::int AS b`);
  await unprepared.end();
}

async function streams() {
  await sql`CREATE TABLE lines (id int PRIMARY KEY, t text)`;
  await pipeline(Readable.from(Array.from({ length: 3000 }, (_, i) => `${i}\tline ${i}\\t\n`)), await sql`COPY lines FROM STDIN`.writable());
  show(await sql`SELECT count(*)::int, min(t), max(id) FROM lines`);
  let text = "";
  const taken = new Writable({ write(chunk, _, done) { text += chunk; done(); } });
  await pipeline(await sql`COPY (SELECT * FROM lines WHERE id % 1000 = 1 ORDER BY id) TO STDOUT (FORMAT csv, HEADER)`.readable(), taken);
  show(text);
  const batches = [];
  await sql`SELECT id FROM lines ORDER BY id`.cursor(700, (found) => { batches.push([found.length, found[0].id]); });
  show(batches);
  let seen = 0;
  for await (const [row] of sql`SELECT id FROM lines ORDER BY id`.cursor()) {
    seen += row.id;
    if (row.id === 10) break;
  }
  show(seen);
  let sum = 0;
  await sql`SELECT id FROM lines`.forEach((row) => { sum += row.id; });
  show(sum);
}

async function transactions() {
  await sql`CREATE TABLE accounts (id int PRIMARY KEY, amount int CHECK (amount >= 0), owner text UNIQUE)`;
  await sql`CREATE TABLE moves (account int REFERENCES accounts, amount int NOT NULL)`;
  await sql.begin(async (t) => {
    await t`INSERT INTO accounts ${t([{ id: 1, amount: 10, owner: "a" }, { id: 2, amount: 0, owner: "b" }])}`;
    await t.savepoint("inner", async (s) => {
      await s`UPDATE accounts SET amount = 100`;
      throw new Error("back");
    }).catch((error) => assert.strictEqual(error.message, "back"));
    await t.savepoint((s) => s`INSERT INTO moves VALUES (1, 5)`);
  });
  show(await sql`SELECT * FROM accounts ORDER BY id`);
  await assert.rejects(sql.begin((t) => [
    t`UPDATE accounts SET amount = 50 WHERE id = 1`, t`UPDATE accounts SET amount = -1 WHERE id = 2`]));
  const result = await sql.begin("ISOLATION LEVEL SERIALIZABLE READ ONLY", (t) => [t`SELECT 1 AS a`, t`SHOW transaction_read_only`]);
  show(result);
  for (const query of [
    sql`INSERT INTO accounts VALUES (1, 1)`, sql`INSERT INTO accounts VALUES (3, -1)`, sql`INSERT INTO moves VALUES (9, 1)`,
    sql`INSERT INTO moves VALUES (1, null)`, sql`SELECT * FROM nowhere`, sql`SELECT nothing FROM accounts`, sql`SELEC 1`,
    sql`SELECT 1 / ${0}::int`, sql`SELECT ${"x"}::int`, sql`INSERT INTO accounts VALUES (4, 1, 'a')`,
    sql`SELECT amount FROM accounts GROUP BY id, owner HAVING count(*) > 'x'`]) {
    await query.then(() => assert.fail("no error"), (error) => show(
      [error.code, error.severity, error.message, error.detail, error.hint, error.position, error.schema_name, error.table_name,
        error.column_name, error.constraint_name]));
  }
  const told = [];
  let heard;
  const both = new Promise((done) => { heard = done; });
  const listening = await sql.listen("news", (payload) => { told.push(payload); if (told.length === 2) heard(); });
  await sql.notify("news", "first");
  await sql`SELECT pg_notify('news', 'second')`;
  await both;
  show(told);
  await listening.unlisten();
  const long = sql`SELECT pg_sleep(30)`;
  setTimeout(() => long.cancel(), 300);
  await assert.rejects(long, { code: "57014" });
  await sql`CREATE TABLE IF NOT EXISTS accounts (id int)`;
  show(notices);
  const reserved = await sql.reserve();
  const [{ pid }] = await reserved`SELECT pg_backend_pid() AS pid`;
  show(await sql`SELECT application_name, state FROM pg_stat_activity WHERE pid = ${pid}`);
  reserved.release();
  const bulk = await Promise.all(Array.from({ length: 200 }, (_, i) => sql`SELECT ${i}::int AS i`));
  show(bulk.reduce((total, [row]) => total + row.i, 0));
  await sql`ALTER TABLE accounts ADD note text DEFAULT 'n'`;
  show(await sql`SELECT * FROM accounts ORDER BY id`);
}

const features = { rows, streams, transactions };
features[process.argv[3]]().then(() => sql.end({ timeout: 5 })).catch((error) => {
  console.error(error);
  process.exit(1);
});
