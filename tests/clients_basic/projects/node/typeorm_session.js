// A session of TypeORM: what it prints is compared between the servers. argv: the URL of the database, the feature.
require("reflect-metadata");
const assert = require("node:assert");
const { DataSource, EntitySchema, In, IsNull, MoreThan } = require("typeorm");

const Author = new EntitySchema({
  name: "Author",
  columns: {
    id: { type: "uuid", primary: true, generated: "uuid" },
    name: { type: "varchar", length: 60, unique: true },
    born: { type: "date", nullable: true },
    kind: { type: "enum", enum: ["poet", "novelist"], default: "poet" },
    tags: { type: "text", array: true, default: [] },
    createdAt: { type: "timestamptz", createDate: true },
    version: { type: "int", version: true },
  },
  relations: { books: { type: "one-to-many", target: "Book", inverseSide: "author" } },
});

const Book = (columns = {}) => new EntitySchema({
  name: "Book",
  columns: {
    id: { type: "int", primary: true, generated: "increment" },
    title: { type: "varchar", comment: "as printed" },
    price: { type: "numeric", precision: 10, scale: 2, default: 0 },
    details: { type: "jsonb", nullable: true },
    deletedAt: { type: "timestamp", deleteDate: true },
    ...columns,
  },
  indices: [{ name: "by_title", columns: ["title"] }, { columns: ["author", "title"], unique: true }],
  checks: [{ name: "not_negative", expression: '"price" >= 0' }],
  relations: {
    author: { type: "many-to-one", target: "Author", joinColumn: true, onDelete: "CASCADE", nullable: false },
    shelves: { type: "many-to-many", target: "Shelf", joinTable: true },
  },
});

const Shelf = new EntitySchema({
  name: "Shelf",
  columns: { id: { type: "bigint", primary: true, generated: "identity" }, place: { type: "varchar", length: 20 } },
});

const open = (columns = {}, more = {}) => new DataSource({
  type: "postgres", url: process.argv[2], uuidExtension: "pgcrypto", entities: [Author, Book(columns), Shelf], ...more,
}).initialize();

async function synchronize() {
  let source = await open({}, { synchronize: true });
  assert.strictEqual((await source.driver.createSchemaBuilder().log()).upQueries.length, 0);
  await source.destroy();
  source = await open({ pages: { type: "smallint", nullable: true }, isbn: { type: "char", length: 13, default: "?" } });
  const { upQueries } = await source.driver.createSchemaBuilder().log();
  console.log(upQueries.map((one) => one.query).join("\n"));
  await source.synchronize();
  assert.strictEqual((await source.driver.createSchemaBuilder().log()).upQueries.length, 0);
  const runner = source.createQueryRunner();
  const table = await runner.getTable("book");
  console.log(table.columns.map((c) => [c.name, c.type, c.length, c.isNullable, c.default].join(" ")).join("\n"));
  console.log(table.indices.map((i) => [...i.columnNames].sort().join()).sort(), table.checks.map((c) => c.expression));
  console.log(table.foreignKeys.map((k) => [k.columnNames, k.referencedTableName, k.onDelete].join(" ")));
  await runner.release();
  await source.destroy();
}

async function extension() {
  const source = await open({}, { uuidExtension: "uuid-ossp" });
  console.log((await source.query("SELECT uuid_generate_v4() AS id"))[0].id.length);
  await source.destroy();
}

async function crud() {
  const source = await open();
  const authors = source.getRepository("Author");
  const books = source.getRepository("Book");
  const ada = await authors.save({ name: "Ada", tags: ["x", "y z"], born: "1815-12-10" });
  assert.match(ada.id, /^[0-9a-f-]{36}$/);
  ada.kind = "novelist";
  assert.strictEqual((await authors.save(ada)).version, 2);
  const shelf = await source.getRepository("Shelf").save({ place: "left" });
  await books.save(Array.from({ length: 20 }, (_, i) => (
    { title: `Book ${i}`, price: i * 1.5, author: ada, details: { at: i }, shelves: i % 2 ? [shelf] : [] })));
  console.log(JSON.stringify(await books.find({
    select: { title: true, price: true, author: { name: true, tags: true } },
    relations: { author: true, shelves: true }, where: { price: MoreThan(20), title: In(["Book 15", "Book 16"]) },
    order: { title: "ASC" } })));
  console.log(JSON.stringify(await books.findAndCount({ take: 2, skip: 3, order: { id: "ASC" }, relations: { shelves: true } })));
  await books.softDelete({ title: "Book 3" });
  console.log(await books.count(), await books.count({ withDeleted: true, where: { deletedAt: IsNull() } }));
  await books.restore({ title: "Book 3" });
  console.log((await books.update({ price: 0 }, { title: "free" })).affected, (await books.delete({ title: "Book 1" })).affected);
  console.log(JSON.stringify(await source.createQueryBuilder("Author", "a").leftJoin("a.books", "b").select("a.name", "name")
    .addSelect("SUM(b.price)", "total").addSelect("(b.details->>'at')::int % 2", "odd").groupBy("a.name").addGroupBy("odd")
    .having("COUNT(*) > :least", { least: 3 }).orderBy("odd").getRawMany()));
  await assert.rejects(books.insert({ title: "x", price: -1, author: ada }), (e) => e.driverError.code === "23514");
  await assert.rejects(books.insert({ title: "Book 2", author: ada }), (e) => e.driverError.code === "23505");
  await assert.rejects(authors.save({ name: "Bo", kind: "cook" }), (e) => e.driverError.code === "22P02");
  await source.destroy();
}

async function upserts() {
  const source = await open();
  const authors = source.getRepository("Author");
  await authors.upsert([{ name: "Ada", kind: "poet" }, { name: "Cy", kind: "novelist" }], ["name"]);
  await authors.upsert([{ name: "Cy", kind: "novelist" }], { conflictPaths: ["name"], skipUpdateIfNoValuesChanged: true });
  await authors.createQueryBuilder().insert().values({ name: "Cy" }).orIgnore().execute();
  console.log(JSON.stringify(await authors.find({ select: { name: true, kind: true }, order: { name: "ASC" } })));
  await source.destroy();
}

async function transactions() {
  const source = await open();
  await assert.rejects(source.transaction("SERIALIZABLE", async (manager) => {
    await manager.insert("Author", { name: "gone" });
    throw new Error("no");
  }), /no/);
  await source.transaction(async (manager) => {
    await manager.insert("Author", { name: "Di" });
    await manager.transaction((inner) => inner.insert("Author", { name: "Di" })).catch((e) => (
      assert.strictEqual(e.driverError.code, "23505")));
    console.log(JSON.stringify(await manager.createQueryBuilder("Author", "a").setLock("pessimistic_write")
      .where("a.name = :name", { name: "Di" }).select("a.name").getOne()));
  });
  console.log(await source.getRepository("Author").count());
  await source.destroy();
}

async function migrations() {
  class First1700000000001 {
    async up(runner) {
      await runner.query('CREATE TABLE "log" ("id" SERIAL NOT NULL, "text" text NOT NULL, CONSTRAINT "PK_log" PRIMARY KEY ("id"))');
    }
    async down(runner) { await runner.dropTable("log"); }
  }
  class Second1700000000002 {
    async up(runner) {
      await runner.renameColumn("log", "text", "message");
      await runner.changeColumn("log", "message", Object.assign((await runner.getTable("log")).findColumnByName("message").clone(),
        { isNullable: true }));
    }
    async down(runner) { await runner.renameColumn("log", "message", "text"); }
  }
  const source = await open({}, { migrations: [First1700000000001, Second1700000000002] });
  console.log((await source.runMigrations()).map((one) => one.name));
  assert.strictEqual(await source.showMigrations(), false);
  await source.undoLastMigration();
  await source.undoLastMigration();
  console.log(await source.query("SELECT count(*) FROM migrations"), await source.createQueryRunner().hasTable("log"));
  await source.destroy();
}

const features = { synchronize, extension, crud, upserts, transactions, migrations };
features[process.argv[3]]().catch((error) => { console.error(error); process.exit(1); });
