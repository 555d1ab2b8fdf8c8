// A session of Knex: what it prints is compared between the servers. argv: the URL of the database, the feature.
const assert = require("node:assert");
const knex = require("knex")({ client: "pg", connection: process.argv[2], pool: { min: 1, max: 4 } });

async function migrate() {
  const migrations = [
    ["1", (db) => db.schema
      .createTable("owners", (t) => {
        t.increments("id");
        t.string("name", 40).notNullable().unique().comment("how it is called");
        t.enu("kind", ["person", "firm"]).defaultTo("person");
        t.enu("state", ["open", "shut"], { useNative: true, enumName: "owner_state" });
        t.jsonb("details").defaultTo("{}");
        t.timestamps(true, true);
      })
      .createTable("pets", (t) => {
        t.bigIncrements("id");
        t.integer("owner_id").references("id").inTable("owners").onDelete("CASCADE").index();
        t.decimal("weight", 8, 3).checkPositive();
        t.specificType("tags", "text[]");
        t.uuid("chip").defaultTo(db.fn.uuid());
        t.date("born");
        t.binary("picture");
        t.unique(["owner_id", "born"], { indexName: "one_a_day" });
      })],
    ["2", (db) => db.schema.alterTable("pets", (t) => {
      t.string("name").notNullable().defaultTo("?");
      t.renameColumn("weight", "grams");
      t.setNullable("name");
      t.index(["name"], "by_name", { indexType: "btree" });
    })],
    ["3", (db) => db.schema.alterTable("pets", (t) => {
      t.string("name", 100).notNullable().alter();
      t.dropIndex([], "by_name");
      t.dropColumn("picture");
    }).createView("heavy", (v) => {
      v.columns(["name", "grams"]);
      v.as(db("pets").select("name", "grams").where("grams", ">", 1000));
    })],
  ];
  const source = {
    getMigrations: async () => migrations,
    getMigrationName: ([name]) => name,
    getMigration: async ([, up]) => ({
      up,
      down: (db) => db.schema.dropViewIfExists("heavy").dropTableIfExists("pets").dropTableIfExists("owners")
        .raw("DROP TYPE IF EXISTS owner_state"),
    }),
  };
  const [, done] = await knex.migrate.latest({ migrationSource: source });
  assert.deepStrictEqual(done, ["1", "2", "3"]);
  assert.deepStrictEqual((await knex.migrate.latest({ migrationSource: source }))[1], []);
  assert.ok(await knex.schema.hasTable("pets"));
  assert.ok(!(await knex.schema.hasColumn("pets", "picture")));
}

async function columnInfo() {
  console.log(JSON.stringify(await knex("pets").columnInfo()));
}

async function crud() {
  const owners = await knex("owners").insert([{ name: "Ada", state: "open" }, { name: "Bo", kind: "firm" }], ["id", "kind"]);
  console.log(JSON.stringify(owners));
  await assert.rejects(knex("owners").insert({ name: "Cy", kind: "cat" }), { code: "23514", constraint: "owners_kind_check" });
  await assert.rejects(knex("owners").insert({ name: "Cy", state: "ajar" }), { code: "22P02" });
  await assert.rejects(knex("owners").insert({ name: "Ada" }), { code: "23505", constraint: "owners_name_unique" });
  await assert.rejects(knex("pets").insert({ owner_id: 99, name: "x" }), { code: "23503" });
  await knex.batchInsert("pets", Array.from({ length: 300 }, (_, i) => (
    { owner_id: owners[i % 2].id, grams: i * 10.5 + 1, name: `pet ${i}`, tags: ["a", `b,${i}`], born: new Date(Date.UTC(2020, 0, i)) })), 50);
  console.log(JSON.stringify(await knex("pets").select("name", "grams", "tags").orderBy("id").limit(3).offset(10)));
  console.log(JSON.stringify(await knex("owners as o").leftJoin("pets as p", "p.owner_id", "o.id").groupBy("o.name")
    .select("o.name").count("p.id as pets").sum("p.grams as grams").orderBy("o.name")));
  console.log(JSON.stringify(await knex("heavy").count("*")));
  console.log(await knex("pets").where("grams", "<", 50).update({ name: knex.raw("upper(name)") }));
  console.log(await knex("pets").whereIn("name", ["PET 1", "PET 2"]).del());
  console.log(JSON.stringify(await knex("owners").whereJsonPath("details", "$.age", ">", 3).select("name")));
  console.log(JSON.stringify(await knex.with("few", knex("pets").where("grams", "<", 100)).from("few").count("*")));
}

async function upserts() {
  console.log(JSON.stringify(await knex("owners").insert([{ name: "Ada", details: { age: 36 } }, { name: "Di" }])
    .onConflict("name").merge(["details"]).returning(["name", "details"])));
  console.log((await knex("owners").insert({ name: "Bo" }).onConflict("name").ignore().returning("id")).length);
  console.log(JSON.stringify(await knex("owners").insert({ name: "Bo", details: { age: 1 } }).onConflict("name")
    .merge({ details: knex.raw("excluded.details") }).where("owners.kind", "firm").returning("details")));
}

async function transactions() {
  await assert.rejects(knex.transaction(async (trx) => {
    await trx("owners").insert({ name: "gone" });
    throw new Error("no");
  }), /no/);
  await knex.transaction(async (trx) => {
    await trx("owners").insert({ name: "Ed" });
    await trx.transaction(async (inner) => {
      await inner("owners").insert({ name: "Ed" });
    }).catch((error) => assert.strictEqual(error.code, "23505"));
    console.log(JSON.stringify(await trx("owners").where({ name: "Ed" }).forUpdate().select("name")));
  }, { isolationLevel: "repeatable read" });
  console.log(JSON.stringify(await knex("owners").pluck("name").orderBy("name")));
  const names = [];
  for await (const row of knex("pets").select("name").orderBy("id").stream()) names.push(row.name);
  console.log(names.length, names[0]);
}

const features = { migrate, columnInfo, crud, upserts, transactions };
features[process.argv[3]]().then(() => knex.destroy(), (error) => { console.error(error); process.exit(1); });
