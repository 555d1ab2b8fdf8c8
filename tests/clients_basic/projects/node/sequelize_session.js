// A session of Sequelize: what it prints is compared between the servers. argv: the URL of the database, the feature.
const assert = require("node:assert");
const { DataTypes, Op, QueryTypes, Sequelize, Transaction, col, fn, literal } = require("sequelize");

const statements = [];
const db = new Sequelize(process.argv[2], { logging: (text) => statements.push(text), pool: { max: 4 }, timezone: "+00:00" });
const show = (value) => console.log(JSON.stringify(value, (key, given) => (Buffer.isBuffer(given) ? given.toString("hex") : given)));
const rejects = async (promise, kind) => {
  const error = await promise.then(() => assert.fail("it should have failed"), (caught) => caught);
  assert.strictEqual(error.name, kind);
  show({ name: error.name, message: error.message, fields: error.fields, constraint: error.index ?? error.constraint });
};

const Owner = db.define("owner", {
  name: { type: DataTypes.STRING(40), allowNull: false, unique: "owner_called" },
  kind: { type: DataTypes.STRING(10), defaultValue: "person" },
  details: { type: DataTypes.JSONB, defaultValue: {} },
  tags: DataTypes.ARRAY(DataTypes.STRING),
  stay: DataTypes.RANGE(DataTypes.DATEONLY),
  secret: DataTypes.BLOB,
  key: { type: DataTypes.UUID, defaultValue: DataTypes.UUIDV4 },
  balance: { type: DataTypes.DECIMAL(12, 2), defaultValue: 0 },
}, { timestamps: false, indexes: [{ fields: ["kind", { name: "name", order: "DESC" }] }, { fields: ["details"], where: { kind: "firm" } }] });
const Pet = db.define("pet", {
  id: { type: DataTypes.BIGINT, primaryKey: true, autoIncrement: true },
  name: DataTypes.TEXT,
  born: DataTypes.DATEONLY,
  weight: { type: DataTypes.FLOAT, comment: "in kilograms" },
  seen: DataTypes.DATE,
}, { paranoid: true, version: true, createdAt: false, updatedAt: false });
Owner.hasMany(Pet, { onDelete: "CASCADE", foreignKey: { allowNull: false } });
Pet.belongsTo(Owner);
const Label = db.define("label", { text: { type: DataTypes.STRING, primaryKey: true } }, { timestamps: false });
Pet.belongsToMany(Label, { through: "pet_labels", timestamps: false });
Label.belongsToMany(Pet, { through: "pet_labels", timestamps: false });

// information_schema qualifies sequences: `nextval('public.pets_id_seq'::regclass)`.
const described = async (table) => {
  const found = await db.getQueryInterface().describeTable(table);
  const counted = Object.values(found).filter((column) => /^nextval/.test(column.defaultValue));
  counted.forEach((column) => Object.assign(column, { defaultValue: "nextval" }));
  return found;
};

const features = {
  async sync() {
    await db.authenticate();
    await db.sync({ force: true });
    const made = statements.length;
    await db.sync({ alter: true });
    await db.sync();
    assert.ok(statements.length > made);
    const queries = db.getQueryInterface();
    show((await queries.showAllTables()).sort());
    for (const table of ["owners", "pets", "pet_labels"]) {
      show(await described(table));
      show((await queries.showIndex(table)).map(({ name, primary, unique, fields }) => ({ name, primary, unique, fields })));
      const keys = await queries.getForeignKeyReferencesForTable(table);
      show(keys.map(({ columnName, referencedTableName }) => `${columnName}: ${referencedTableName}`).sort());
    }
    assert.match(await db.databaseVersion(), /^15/);
  },
  async enums() {
    const Door = db.define("door", { state: { type: DataTypes.ENUM("open", "shut"), defaultValue: "open" } }, { timestamps: false });
    await Door.sync();
    await Door.bulkCreate([{}, { state: "shut" }]);
    await db.getQueryInterface().changeColumn("doors", "state", { type: DataTypes.ENUM("open", "shut", "gone") });
    show(await Door.findAll({ order: ["state"], raw: true }));
    await db.query("DROP TABLE doors");
  },
  async changes() {
    const queries = db.getQueryInterface();
    await queries.addColumn("pets", "colour", { type: DataTypes.STRING(10), defaultValue: "grey" });
    await queries.changeColumn("pets", "colour", { type: DataTypes.TEXT, allowNull: false, defaultValue: "brown" });
    await queries.renameColumn("pets", "colour", "fur");
    await queries.addIndex("pets", ["fur", "born"], { name: "by_fur", unique: false, where: { fur: { [Op.ne]: null } } });
    await queries.addConstraint("pets", { fields: ["weight"], type: "check", name: "heavy_enough", where: { weight: { [Op.gt]: 0 } } });
    show(await described("pets"));
    await queries.removeConstraint("pets", "heavy_enough");
    await queries.removeIndex("pets", "by_fur");
    await queries.removeColumn("pets", "fur");
    await queries.createTable("gone", { id: { type: DataTypes.INTEGER, primaryKey: true, autoIncrementIdentity: true, autoIncrement: true } });
    await queries.renameTable("gone", "kept");
    await queries.dropTable("kept");
    show((await queries.showAllTables()).sort());
  },
  async rows() {
    const key = "00000000-0000-0000-0000-000000000001";
    const ada = await Owner.create({ name: "Ada", tags: ["a", "b c"], details: { a: { b: [1, 2] } }, stay: ["2020-01-01", "2020-02-01"], secret: Buffer.from("x\0y"), key, balance: "12.50" });
    await Owner.bulkCreate([{ name: "Bo", key, kind: "firm" }, { name: "Cy", key, details: { a: { b: [3] }, c: "x" } }]);
    show(ada.get());
    const bo = await Owner.findOne({ where: { name: "Bo" } });
    const rex = await Pet.create({ name: "Rex", born: "2019-05-06", weight: 1.5, ownerId: ada.id, seen: new Date(0), labels: [{ text: "new" }, { text: "good" }] }, { include: Label });
    await bo.createPet({ name: "Io", weight: 2.25 });
    show((await Pet.findAll({ include: [{ model: Owner, required: true, where: { kind: "person" } }, Label], order: [["id", "ASC"], [Label, "text", "DESC"]] })).map((row) => row.toJSON()));
    show((await Owner.findAndCountAll({ where: { [Op.or]: [{ name: { [Op.iLike]: "%a%" } }, { "details.c": "x" }] }, order: ["id"], limit: 1 })).count);
    show((await Owner.findAll({ where: { tags: { [Op.contains]: ["a"] }, stay: { [Op.contains]: "2020-01-15" } }, raw: true })).length);
    show((await Owner.findAll({ where: { details: { [Op.contains]: { a: { b: [3] } } } }, attributes: ["name"], raw: true })));
    show(await Owner.findAll({ attributes: ["kind", [fn("count", col("id")), "n"], [literal("sum(balance)"), "total"]], group: "kind", order: [["kind", "ASC"]], raw: true }));
    show(await Pet.max("weight"), await Pet.count({ group: "ownerId" }));
    rex.name = "Max";
    await rex.save();
    show(rex.version);
    await rex.destroy();
    show(await Pet.count(), await Pet.count({ paranoid: false }));
    await rex.restore();
    await Owner.increment({ balance: 5 }, { where: { name: "Ada" } });
    show((await ada.reload()).balance);
    const [affected, changed] = await Owner.update({ details: { z: 1 } }, { where: { name: { [Op.ne]: "Ada" } }, returning: ["name", "details"] });
    show([affected, changed.map((row) => row.get()).sort((a, b) => (a.name < b.name ? -1 : 1))]);
    show(await db.query("SELECT name, $1::int AS n FROM owners WHERE name = ANY($2) ORDER BY 1", { bind: [7, ["Ada", "Cy"]], type: QueryTypes.SELECT }));
    show(await db.query("SELECT :x AS x", { replacements: { x: "it's" }, type: QueryTypes.SELECT }));
  },
  async upserts() {
    const [row, created] = await Owner.upsert({ id: 900, name: "Di", key: null });
    show([row.name, created]);
    await Owner.upsert({ id: 900, name: "Dora", key: null });
    const [found, made] = await Owner.findOrCreate({ where: { name: "Dora" }, defaults: { key: null } });
    show([found.id, made]);
    await Owner.bulkCreate([{ name: "Dora", balance: 3, key: null }, { name: "Ed", key: null }], { updateOnDuplicate: ["balance"], conflictAttributes: ["name"] });
    await Owner.bulkCreate([{ name: "Ed", key: null }], { ignoreDuplicates: true });
    show(await Owner.findAll({ where: { name: ["Dora", "Ed"] }, attributes: ["name", "balance"], order: ["name"], raw: true }));
  },
  async errors() {
    await rejects(Owner.create({ name: "Ada" }), "SequelizeUniqueConstraintError");
    await rejects(Pet.create({ name: "x", ownerId: 123456 }), "SequelizeForeignKeyConstraintError");
    await rejects(db.query("SELECT nope"), "SequelizeDatabaseError");
    await rejects(Owner.create({ name: "y", kind: "longer than ten" }), "SequelizeDatabaseError");
    await rejects(db.query("INSERT INTO owners (name) VALUES (NULL)"), "SequelizeDatabaseError");
    await rejects(db.getQueryInterface().removeConstraint("owners", "no_such"), "SequelizeUnknownConstraintError");
  },
  async transactions() {
    await assert.rejects(db.transaction(async (transaction) => {
      await Owner.create({ name: "Fe" }, { transaction });
      throw new Error("undone");
    }));
    await db.transaction({ isolationLevel: Transaction.ISOLATION_LEVELS.SERIALIZABLE }, async (transaction) => {
      const ada = await Owner.findOne({ where: { name: "Ada" }, lock: transaction.LOCK.UPDATE, transaction });
      await db.transaction({ transaction }, (inner) => ada.update({ balance: 77 }, { transaction: inner }));
      const inner = await db.transaction({ transaction });
      await Owner.create({ name: "Gus" }, { transaction: inner });
      await inner.rollback();
      show(await Owner.findAll({ where: { name: "Gus" }, skipLocked: true, lock: true, transaction }));
    });
    show(await Owner.findAll({ where: { name: ["Ada", "Fe", "Gus"] }, attributes: ["name", "balance"], raw: true }));
    await db.transaction({ type: "DEFERRED", readOnly: true }, (transaction) => Owner.count({ transaction }));
  },
};

features[process.argv[3]]().then(() => db.close()).catch((error) => {
  console.log(error);
  process.exit(1);
});
