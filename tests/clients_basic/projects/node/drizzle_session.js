// A session of Drizzle: what it prints is compared between the servers. argv: the URL of the database, the feature.
const assert = require("node:assert");
const fs = require("node:fs");
const path = require("node:path");
const { execFileSync } = require("node:child_process");
const { and, asc, count, desc, eq, gt, inArray, relations, sql, sum } = require("drizzle-orm");
const { drizzle } = require("drizzle-orm/node-postgres");
const { migrate } = require("drizzle-orm/node-postgres/migrator");
const pg = require("drizzle-orm/pg-core");
const { Pool } = require("pg");

const pool = new Pool({ connectionString: process.argv[2], max: 4 });
const show = (value) => console.log(JSON.stringify(value));
const MODELS = `
const pg = require("drizzle-orm/pg-core");
const { sql } = require("drizzle-orm");
exports.shop = pg.pgSchema("shop");
exports.state = exports.shop.enum("state", ["open", "shut"]);
exports.authors = exports.shop.table("authors", {
  id: pg.serial("id").primaryKey(),
  name: pg.varchar("name", { length: 40 }).notNull().unique("author_called"),
  state: exports.state("state").default("open").notNull(),
  more: pg.jsonb("more").default({}),
  tags: pg.text("tags").array().default(sql\`'{}'::text[]\`),
  made: pg.timestamp("made", { withTimezone: true, mode: "string" }).defaultNow(),
}, (t) => [pg.index("by_state").on(t.state, t.name.desc()), pg.check("named", sql\`length(\${t.name}) > 0\`)]);
exports.books = exports.shop.table("books", {
  id: pg.bigint("id", { mode: "number" }).primaryKey().generatedAlwaysAsIdentity({ startWith: 10 }),
  author: pg.integer("author").notNull().references(() => exports.authors.id, { onDelete: "cascade" }),
  title: pg.text("title").notNull(),
  price: pg.numeric("price", { precision: 10, scale: 2 }),
  shout: pg.text("shout").generatedAlwaysAs(sql\`upper(title)\`),
  on: pg.date("on"),
}, (t) => [pg.uniqueIndex("once").on(t.author, t.title).where(sql\`price > 1\`)]);
`;
const CHANGED = MODELS.replace("length: 40", "length: 80").replace('"shut"]', '"shut", "sold"]')
  .replace('title: pg.text("title").notNull()', 'title: pg.text("title").notNull().default("none"), pages: pg.smallint("pages").default(1)')
  .replace('on: pg.date("on")', 'on: pg.timestamp("on")').replace('pg.index("by_state").on(t.state, t.name.desc()), ', "");
const folder = path.resolve("drizzle");

function kit(command, models, ...words) {
  fs.mkdirSync(folder, { recursive: true });
  fs.writeFileSync(path.join(folder, "models.js"), models);
  const config = { dialect: "postgresql", schema: path.join(folder, "models.js"), out: "drizzle/out", schemaFilter: ["shop"], dbCredentials: { url: process.argv[2] } };
  fs.writeFileSync(path.join(folder, "config.json"), JSON.stringify(config));
  const tool = path.join(process.env.NODE_PATH, "node_modules", "drizzle-kit", "bin.cjs");
  const given = execFileSync("node", [tool, command, "--config", path.join(folder, "config.json"), ...words], { encoding: "utf8", env: { ...process.env, NODE_PATH: path.join(process.env.NODE_PATH, "node_modules") } });
  assert.doesNotMatch(given, /error/i);
  return given;
}

function models() {
  const module = { exports: {} };
  new Function("require", "exports", MODELS)(require, module.exports);
  const { authors, books } = module.exports;
  return { ...module.exports, booksOf: relations(authors, ({ many }) => ({ books: many(books) })), authorOf: relations(books, ({ one }) => ({ writer: one(authors, { fields: [books.author], references: [authors.id] }) })) };
}

async function columns() {
  const found = await pool.query("SELECT table_name, column_name, data_type, column_default, is_nullable FROM information_schema.columns WHERE table_schema = 'shop' ORDER BY 1, ordinal_position");
  found.rows.forEach(show);
}

const features = {
  async migrate() {
    kit("generate", MODELS, "--name", "first");
    await migrate(drizzle(pool), { migrationsFolder: path.join(folder, "out") });
    await migrate(drizzle(pool), { migrationsFolder: path.join(folder, "out") });
    await columns();
    show((await pool.query("SELECT count(*) FROM drizzle.__drizzle_migrations")).rows);
  },
  async rows() {
    const schema = models();
    const { authors, books } = schema;
    const db = drizzle(pool, { schema });
    show(await db.insert(authors).values([{ name: "Ada", tags: ["a", "b"], more: { x: [1] } }, { name: "Bo", state: "shut" }]).returning({ id: authors.id, name: authors.name, tags: authors.tags }));
    await db.insert(books).values([{ author: 1, title: "One", price: "10.50", on: "2020-01-02" }, { author: 1, title: "Two", price: "2.25" }, { author: 2, title: "Three" }]);
    show(await db.query.authors.findMany({ columns: { made: false }, with: { books: { orderBy: asc(books.id) } }, orderBy: (t) => asc(t.id) }));
    show(await db.query.books.findFirst({ where: eq(books.title, "Two"), with: { writer: { columns: { name: true } } } }));
    show(await db.select({ name: authors.name, n: count(books.id), total: sum(books.price) }).from(authors).leftJoin(books, eq(books.author, authors.id)).groupBy(authors.name).orderBy(desc(authors.name)));
    const dear = db.$with("dear").as(db.select().from(books).where(gt(books.price, "5")));
    show(await db.with(dear).select({ title: dear.title, shout: dear.shout }).from(dear));
    show(await db.update(books).set({ price: sql`${books.price} + 1` }).where(and(eq(books.author, 1), inArray(books.title, ["One", "Two"]))).returning({ title: books.title, price: books.price }));
    show(await db.insert(authors).values({ name: "Ada", state: "shut" }).onConflictDoUpdate({ target: authors.name, set: { state: sql`excluded.state` } }).returning({ id: authors.id, state: authors.state }));
    await db.insert(authors).values({ name: "Bo" }).onConflictDoNothing();
    show(await db.delete(books).where(eq(books.title, "Three")).returning({ id: books.id }));
    const named = db.select({ name: authors.name }).from(authors).where(eq(authors.id, sql.placeholder("id"))).prepare("one_author");
    show([await named.execute({ id: 1 }), await named.execute({ id: 2 })]);
    show((await db.select({ name: authors.name }).from(authors).unionAll(db.select({ name: books.title }).from(books)).orderBy(sql`1`)));
    show(await db.$count(authors));
  },
  async transactions() {
    const { authors } = models();
    const db = drizzle(pool);
    await assert.rejects(db.transaction(async (tx) => {
      await tx.insert(authors).values({ name: "Cy" });
      tx.rollback();
    }));
    await db.transaction(async (tx) => {
      await tx.insert(authors).values({ name: "Di" });
      await assert.rejects(tx.transaction((inner) => inner.insert(authors).values({ name: "Di" })), (error) => error.cause.code === "23505");
      show(await tx.select({ name: authors.name }).from(authors).where(eq(authors.name, "Di")).for("update"));
    }, { isolationLevel: "serializable", accessMode: "read write" });
    show(await db.select({ name: authors.name }).from(authors).orderBy(authors.name));
  },
  async change() {
    kit("generate", CHANGED, "--name", "second");
    await migrate(drizzle(pool), { migrationsFolder: path.join(folder, "out") });
    await columns();
  },
  async push() {
    assert.match(kit("push", CHANGED, "--force"), /No changes detected|Changes applied/);
    const pushed = CHANGED.replace('pages: pg.smallint("pages").default(1)', 'pages: pg.integer("pages").default(2)').replace('.unique("author_called")', "");
    assert.match(kit("push", pushed, "--force"), /Changes applied/);
    await columns();
  },
  async pull() {
    kit("pull", MODELS);
    // Its query has the columns of an index in the order that DISTINCT ON without ORDER BY gives, which is no certain one.
    const column = String.raw`table\.\w+(?:\.\w+\([^)]*\))*`;
    const sorted = (columns) => columns.split(/, (?=table\.)/).sort().join(", ");
    const pulled = fs.readFileSync(path.join(folder, "out", "schema.ts"), "utf8");
    console.log(pulled.replace(new RegExp(`${column}(?:, ${column})*`, "g"), sorted));
  },
};

features[process.argv[3]]().then(() => pool.end()).catch((error) => {
  console.log(error, error.stdout, error.stderr);
  process.exit(1);
});
