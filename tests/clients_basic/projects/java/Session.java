import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import jakarta.persistence.*;
import java.io.StringWriter;
import java.math.BigDecimal;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.*;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import liquibase.Contexts;
import liquibase.LabelExpression;
import liquibase.Liquibase;
import liquibase.database.DatabaseFactory;
import liquibase.database.jvm.JdbcConnection;
import liquibase.resource.DirectoryResourceAccessor;
import org.hibernate.SessionFactory;
import org.hibernate.boot.MetadataSources;
import org.hibernate.boot.registry.StandardServiceRegistryBuilder;
import org.springframework.dao.DataAccessException;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.core.namedparam.MapSqlParameterSource;
import org.springframework.jdbc.core.namedparam.NamedParameterJdbcTemplate;
import org.springframework.jdbc.core.simple.SimpleJdbcCall;
import org.springframework.jdbc.core.simple.SimpleJdbcInsert;
import org.springframework.jdbc.datasource.DataSourceTransactionManager;
import org.springframework.jdbc.support.GeneratedKeyHolder;
import org.springframework.transaction.TransactionDefinition;
import org.springframework.transaction.support.TransactionTemplate;

/** Sessions of clients in Java: what they print is compared between the servers. Arguments: the URL, the project's folder, the feature. */
class Session {
    static String url;
    static Path folder;

    static void show(Object... values) {
        System.out.println(Arrays.stream(values).map(Session::text).collect(Collectors.joining(" | ")));
    }

    static String text(Object value) {
        if (value instanceof byte[] bytes) return HexFormat.of().formatHex(bytes);
        if (value instanceof Object[] array) return Arrays.deepToString(array);
        if (value instanceof java.sql.Array array) {
            try { return Arrays.deepToString((Object[]) array.getArray()); } catch (SQLException error) { throw new RuntimeException(error); }
        }
        return String.valueOf(value);
    }

    interface Step { void run() throws Exception; }

    static void refused(Step step) throws Exception {
        try {
            step.run();
        } catch (SQLException error) {
            show(error.getClass().getSimpleName(), error.getSQLState(), error.getMessage().lines().findFirst().get());
            return;
        } catch (DataAccessException | PersistenceException error) {
            Throwable cause = error;
            while (cause.getCause() != null && !(cause instanceof SQLException)) cause = cause.getCause();
            show(error.getClass().getSimpleName(), cause instanceof SQLException sql ? sql.getSQLState() : "", cause.getMessage().lines().findFirst().get());
            return;
        }
        throw new AssertionError("it should have failed");
    }

    static HikariDataSource pool(int size, String... properties) {
        HikariConfig config = new HikariConfig();
        config.setJdbcUrl(url);
        config.setUsername("postgres");
        config.setMaximumPoolSize(size);
        for (int at = 0; at < properties.length; at += 2) config.addDataSourceProperty(properties[at], properties[at + 1]);
        return new HikariDataSource(config);
    }

    // ------------------------------------------------------------ pgjdbc 42.5

    static void driver() throws Exception {
        for (String mode : List.of("extended", "extendedForPrepared", "extendedCacheEverything")) {
            Properties given = new Properties();
            given.putAll(Map.of("user", "postgres", "preferQueryMode", mode, "prepareThreshold", "2", "binaryTransfer", "true"));
            try (Connection db = DriverManager.getConnection(url, given); Statement statement = db.createStatement()) {
                statement.execute("DROP TABLE IF EXISTS things");
                statement.execute("CREATE TABLE things (id serial PRIMARY KEY, name text NOT NULL, price numeric(12,2), raw bytea, fine boolean,"
                    + " at timestamptz, day date, tags text[], chip uuid, doc jsonb, part float8, small smallint, big bigint)");
                statement.execute("SET TimeZone = 'UTC'");
                String insert = "INSERT INTO things (name, price, raw, fine, at, day, tags, chip, doc, part, small, big) VALUES (?,?,?,?,?,?,?,?,?::jsonb,?,?,?)";
                try (PreparedStatement one = db.prepareStatement(insert, Statement.RETURN_GENERATED_KEYS)) {
                    for (int row = 0; row < 6; row++) {
                        one.setString(1, "a 'quoted' \\ näme " + row);
                        one.setBigDecimal(2, new BigDecimal("12.50"));
                        one.setBytes(3, new byte[] {0, (byte) 255, 39});
                        one.setBoolean(4, row % 2 == 0);
                        one.setObject(5, OffsetDateTime.of(2024, 2, 29, 12, 0, 0, 123456000, ZoneOffset.UTC));
                        one.setObject(6, LocalDate.of(2024, 2, 29));
                        one.setArray(7, db.createArrayOf("text", new String[] {"a", "b,\"c\"", null}));
                        one.setObject(8, UUID.fromString("7b1c9a52-5b0c-4c5c-8f0e-0123456789ab"));
                        one.setString(9, "{\"a\": [1, null]}");
                        one.setDouble(10, 2.5);
                        one.setShort(11, (short) -7);
                        if (row == 3) one.setNull(12, Types.BIGINT); else one.setLong(12, 1L << 62);
                        if (row < 3) {
                            show(one.executeUpdate());
                            ResultSet keys = one.getGeneratedKeys();
                            keys.next();
                            show(keys.getInt("id"));
                        } else {
                            one.addBatch();
                        }
                    }
                    show(Arrays.toString(one.executeBatch()));
                }
                try (PreparedStatement select = db.prepareStatement("SELECT * FROM things WHERE id > ? ORDER BY id")) {
                    for (int again = 0; again < 4; again++) {
                        select.setInt(1, 3 + again % 2);
                        ResultSet rows = select.executeQuery();
                        ResultSetMetaData data = rows.getMetaData();
                        if (again == 0) for (int at = 1; at <= data.getColumnCount(); at++)
                            show(data.getColumnName(at), data.getColumnTypeName(at), data.getColumnClassName(at), data.isNullable(at), data.isAutoIncrement(at), data.getTableName(at));
                        while (rows.next()) show(IntStream.rangeClosed(1, data.getColumnCount()).mapToObj(at -> { try { return rows.getObject(at); } catch (SQLException e) { throw new RuntimeException(e); } }).toArray());
                    }
                    ParameterMetaData parameters = select.getParameterMetaData();
                    show(parameters.getParameterCount(), parameters.getParameterTypeName(1));
                }
                db.setAutoCommit(false);
                try (PreparedStatement many = db.prepareStatement("SELECT generate_series(1, 1000)")) {
                    many.setFetchSize(37);
                    ResultSet rows = many.executeQuery();
                    int sum = 0;
                    while (rows.next()) sum += rows.getInt(1);
                    show(sum);
                }
                Savepoint savepoint = db.setSavepoint("one");
                refused(() -> statement.execute("SELECT 1/0"));
                refused(() -> statement.execute("SELECT 1"));
                db.rollback(savepoint);
                try (Statement update = db.createStatement(ResultSet.TYPE_SCROLL_INSENSITIVE, ResultSet.CONCUR_UPDATABLE)) {
                    ResultSet rows = update.executeQuery("SELECT id, name FROM things ORDER BY id");
                    rows.absolute(2);
                    rows.updateString("name", "updated");
                    rows.updateRow();
                    rows.last();
                    rows.deleteRow();
                }
                db.commit();
                db.setAutoCommit(true);
                ResultSet counted = statement.executeQuery("SELECT count(*), count(*) FILTER (WHERE name = 'updated') FROM things");
                counted.next();
                show(counted.getLong(1), counted.getLong(2));
                statement.setQueryTimeout(1);
                refused(() -> statement.execute("SELECT pg_sleep(20)"));
            }
        }
        try (Connection db = DriverManager.getConnection(url, "postgres", "")) {
            DatabaseMetaData data = db.getMetaData();
            db.createStatement().execute("CREATE TABLE kept (thing int REFERENCES things, no int DEFAULT 3, note varchar(20), PRIMARY KEY (thing, no)); COMMENT ON TABLE kept IS 'what is kept'");
            for (ResultSet rows : List.of(data.getTables(null, "public", "%", new String[] {"TABLE"}), data.getColumns(null, "public", "kept", "%"), data.getPrimaryKeys(null, "public", "kept"),
                data.getImportedKeys(null, "public", "kept"), data.getIndexInfo(null, "public", "kept", false, false), data.getSchemas())) {
                int columns = Math.min(rows.getMetaData().getColumnCount(), 24);
                while (rows.next()) {
                    // The server's own schema, which PostgreSQL has none like.
                    if ("tidegate".equals(rows.getString(1))) continue;
                    List<String> texts = new ArrayList<>();
                    for (int at = 2; at <= columns; at++) if (!"PAGES".equalsIgnoreCase(rows.getMetaData().getColumnName(at))) texts.add(rows.getString(at));
                    if (!String.valueOf(texts).contains("pg_t")) show(rows.getString(1) == null ? "" : rows.getMetaData().getColumnName(1), texts);
                }
            }
            org.postgresql.copy.CopyManager copies = db.unwrap(org.postgresql.PGConnection.class).getCopyAPI();
            show(copies.copyIn("COPY kept FROM STDIN WITH (FORMAT csv)", new java.io.StringReader("1,1,x\n1,2,\n")));
            StringWriter out = new StringWriter();
            show(copies.copyOut("COPY (SELECT * FROM kept ORDER BY no) TO STDOUT", out), out.toString().replace("\n", ";"));
        }
    }

    // ------------------------------------------------------------ HikariCP

    static void pooling() throws Exception {
        try (HikariDataSource pool = pool(4)) {
            try (Connection db = pool.getConnection()) {
                db.createStatement().execute("CREATE TABLE counted (id int PRIMARY KEY, n int); INSERT INTO counted VALUES (1, 0)");
            }
            ExecutorService threads = Executors.newFixedThreadPool(12);
            AtomicInteger done = new AtomicInteger();
            for (int at = 0; at < 60; at++) threads.submit(() -> {
                try (Connection db = pool.getConnection()) {
                    db.setAutoCommit(false);
                    db.setTransactionIsolation(Connection.TRANSACTION_READ_COMMITTED);
                    db.createStatement().execute("UPDATE counted SET n = n + 1 WHERE id = 1");
                    db.commit();
                    done.incrementAndGet();
                } catch (SQLException error) {
                    show(error.getSQLState(), error.getMessage());
                }
                return null;
            });
            threads.shutdown();
            show(threads.awaitTermination(60, TimeUnit.SECONDS), done.get());
            try (Connection db = pool.getConnection()) {
                ResultSet rows = db.createStatement().executeQuery("SELECT n FROM counted");
                rows.next();
                show(rows.getInt(1), db.isValid(5), db.getTransactionIsolation() > 0, db.isReadOnly());
                db.setAutoCommit(false);
                db.setReadOnly(true);
                refused(() -> db.createStatement().execute("DELETE FROM counted"));
                db.rollback();
                db.setReadOnly(false);
                db.setAutoCommit(true);
            }
            try (Connection one = pool.getConnection(); Connection other = pool.getConnection()) {
                ResultSet rows = one.createStatement().executeQuery("SELECT pg_backend_pid()");
                rows.next();
                other.createStatement().execute("SELECT pg_terminate_backend(" + rows.getInt(1) + ")");
                Thread.sleep(500);
                refused(() -> one.createStatement().execute("SELECT 1"));
            }
            try (Connection db = pool.getConnection()) {
                ResultSet rows = db.createStatement().executeQuery("SELECT 'alive'");
                rows.next();
                show(rows.getString(1));
            }
            show(pool.getHikariPoolMXBean().getTotalConnections() <= 4);
        }
        refused(() -> {
            HikariConfig config = new HikariConfig();
            config.setJdbcUrl(url + "_missing");
            config.setUsername("postgres");
            config.setInitializationFailTimeout(-1);
            config.setConnectionTimeout(1000);
            try (HikariDataSource pool = new HikariDataSource(config)) {
                try (Connection db = pool.getConnection()) {
                    throw new AssertionError("connected");
                } catch (SQLTransientConnectionException error) {
                    throw (SQLException) error.getCause();
                }
            }
        });
    }

    // ------------------------------------------------------------ JdbcTemplate

    static void templates() throws Exception {
        try (HikariDataSource pool = pool(3)) {
            JdbcTemplate template = new JdbcTemplate(pool);
            NamedParameterJdbcTemplate named = new NamedParameterJdbcTemplate(pool);
            template.execute("CREATE TABLE people (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text UNIQUE NOT NULL, age int CHECK (age > 0), born date)");
            GeneratedKeyHolder keys = new GeneratedKeyHolder();
            template.update(db -> {
                PreparedStatement insert = db.prepareStatement("INSERT INTO people (name, age, born) VALUES (?, ?, ?)", new String[] {"id"});
                insert.setString(1, "Ann");
                insert.setInt(2, 40);
                insert.setObject(3, LocalDate.of(1984, 2, 29));
                return insert;
            }, keys);
            show(keys.getKey());
            show(new SimpleJdbcInsert(pool).withTableName("people").usingGeneratedKeyColumns("id").executeAndReturnKey(Map.of("name", "Bob", "age", 50)));
            show(Arrays.toString(template.batchUpdate("INSERT INTO people (name, age) VALUES (?, ?)", IntStream.range(0, 5).mapToObj(at -> new Object[] {"name " + at, at + 1}).toList())));
            show(named.queryForList("SELECT name FROM people WHERE name IN (:names) ORDER BY 1", Map.of("names", List.of("Ann", "Bob", "none")), String.class));
            show(template.queryForList("SELECT name, age, born FROM people ORDER BY id LIMIT 2"));
            show(template.queryForObject("SELECT count(*) FROM people WHERE age > ?", Integer.class, 3));
            show(named.update("UPDATE people SET age = age + :more WHERE name LIKE :like", new MapSqlParameterSource("more", 1).addValue("like", "name%")));
            template.execute("CREATE FUNCTION older(x int) RETURNS int LANGUAGE sql AS 'SELECT x + 1'");
            show(new SimpleJdbcCall(pool).withFunctionName("older").executeFunction(Integer.class, Map.of("x", 41)));
            refused(() -> template.update("INSERT INTO people (name, age) VALUES ('Ann', 1)"));
            refused(() -> template.update("INSERT INTO people (name, age) VALUES ('Zoe', -1)"));
            refused(() -> template.update("INSERT INTO people (age) VALUES (1)"));
            refused(() -> template.queryForObject("SELECT nothing FROM people", String.class));
            refused(() -> template.queryForObject("SELEKT 1", String.class));
            refused(() -> template.queryForObject("SELECT name FROM people WHERE id = -1", String.class));
            TransactionTemplate transaction = new TransactionTemplate(new DataSourceTransactionManager(pool));
            transaction.executeWithoutResult(status -> {
                template.update("DELETE FROM people");
                status.setRollbackOnly();
            });
            TransactionTemplate nested = new TransactionTemplate(transaction.getTransactionManager());
            nested.setPropagationBehavior(TransactionDefinition.PROPAGATION_NESTED);
            transaction.executeWithoutResult(status -> {
                template.update("UPDATE people SET age = 41 WHERE name = 'Ann'");
                nested.executeWithoutResult(inner -> {
                    template.update("DELETE FROM people");
                    inner.setRollbackOnly();
                });
            });
            show(template.queryForList("SELECT name, age FROM people ORDER BY name"));
            transaction.setReadOnly(true);
            refused(() -> transaction.executeWithoutResult(status -> template.update("DELETE FROM people")));
        }
    }

    // ------------------------------------------------------------ Hibernate

    enum Mood { SAD, FINE }

    @Entity(name = "Author") @Table(name = "authors")
    static class Author {
        @Id @GeneratedValue(strategy = GenerationType.SEQUENCE) Long id;
        @Column(nullable = false, unique = true) String name;
        @Enumerated(EnumType.STRING) Mood mood = Mood.FINE;
        LocalDateTime born;
        @OneToMany(mappedBy = "author", cascade = CascadeType.ALL, orphanRemoval = true) @OrderBy("title") List<Book> books = new ArrayList<>();
    }

    @Entity(name = "Book") @Table(name = "books", indexes = @Index(columnList = "title"))
    static class Book {
        @Id @GeneratedValue(strategy = GenerationType.IDENTITY) Long id;
        @Version int version;
        @ManyToOne(optional = false, fetch = FetchType.LAZY) Author author;
        @Column(length = 100, nullable = false) String title;
        @Column(precision = 10, scale = 2) BigDecimal price;
        List<String> tags = new ArrayList<>();
        UUID chip;
        byte[] cover;
        @ElementCollection @CollectionTable(name = "marks") Set<Integer> marks = new TreeSet<>();

        Book() {}

        Book(Author author, String title, String price) {
            this.author = author;
            this.title = title;
            this.price = new BigDecimal(price);
        }
    }

    static SessionFactory factory(String action) {
        return factory(action, null);
    }

    static SessionFactory factory(String action, String isolation) {
        Map<String, Object> settings = new HashMap<>(Map.of(
            "hibernate.connection.url", url, "hibernate.connection.username", "postgres", "hibernate.hbm2ddl.auto", action,
            "hibernate.jdbc.batch_size", "20", "hibernate.connection.pool_size", "4"));
        if (isolation != null) settings.put("hibernate.connection.isolation", isolation);
        return new MetadataSources(new StandardServiceRegistryBuilder().applySettings(settings).build())
            .addAnnotatedClass(Author.class).addAnnotatedClass(Book.class).buildMetadata().buildSessionFactory();
    }

    /** Changes a book that another session has changed since it was read. */
    static void stale(SessionFactory factory) {
        factory.inTransaction(session -> {
            String query = "from Book where title = 'title 7'";
            Book one = session.createSelectionQuery(query, Book.class).getSingleResult();
            factory.inTransaction(other -> {
                Book same = other.createSelectionQuery(query, Book.class).getSingleResult();
                same.price = same.price.add(BigDecimal.TEN);
            });
            one.price = new BigDecimal(71);
        });
    }

    static void mapping() throws Exception {
        factory("create").close();
        factory("update").close();
        try (SessionFactory factory = factory("validate")) {
            Long id = factory.fromTransaction(session -> {
                Author ann = new Author();
                ann.name = "Ann";
                ann.born = LocalDateTime.of(1960, 2, 29, 12, 0);
                Book book = new Book(ann, "It's one", "12.50");
                book.tags.addAll(List.of("a", "b,c"));
                book.chip = UUID.fromString("7b1c9a52-5b0c-4c5c-8f0e-0123456789ab");
                book.cover = new byte[] {0, (byte) 255};
                book.marks.addAll(List.of(3, 5));
                ann.books.add(book);
                for (int at = 1; at <= 50; at++) ann.books.add(new Book(ann, "title " + at, String.valueOf(at)));
                session.persist(ann);
                return ann.id;
            });
            factory.inTransaction(session -> {
                Author ann = session.find(Author.class, id);
                Book book = ann.books.get(0);
                show(ann.name, ann.mood, ann.born, ann.books.size(), book.title, book.price, book.tags, book.chip, book.cover, book.marks, book.version);
                show(session.createQuery("select count(b), sum(b.price), max(length(b.title)) from Book b where b.price > :low", Object[].class).setParameter("low", new BigDecimal(40)).getSingleResult());
                show(session.createQuery("select a.name, size(a.books) from Author a where exists (select 1 from Book b where b.author = a and b.title like 'title%')", Object[].class).getResultList().toArray());
                show(session.createQuery("select b.title from Book b order by b.price desc nulls last, b.id", String.class).setFirstResult(3).setMaxResults(3).getResultList());
                show(session.createQuery("select b.title, row_number() over (order by b.price) from Book b where array_contains(b.tags, 'a')", Object[].class).getResultList().toArray());
                show(session.createQuery("select b from Book b left join fetch b.author where 3 member of b.marks", Book.class).getResultList().size());
                show(session.createMutationQuery("update Book b set b.price = b.price + 1 where b.price < 5").executeUpdate());
                show(session.createMutationQuery("delete from Book b where b.title = 'title 9'").executeUpdate());
                show(session.createNativeQuery("SELECT title FROM books WHERE tags @> ARRAY['a']::varchar[]", String.class).getResultList());
                show(session.createSelectionQuery("from Book where title = 'title 8'", Book.class).setLockMode(LockModeType.PESSIMISTIC_WRITE).getSingleResult().title);
                ann.books.remove(book);
                ann.mood = Mood.SAD;
            });
            refused(() -> factory.inTransaction(session -> {
                Author other = new Author();
                other.name = "Ann";
                session.persist(other);
            }));
            refused(() -> factory.inTransaction(session -> session.persist(new Book(session.find(Author.class, id), "x".repeat(101), "1"))));
            // As PostgreSQL says it where READ COMMITTED is asked for; which SQLSTATE it is otherwise is the server's default.
            try (SessionFactory committed = factory("validate", "2")) {
                refused(() -> stale(committed));
            }
            try {
                stale(factory);
                throw new AssertionError("it should have failed");
            } catch (OptimisticLockException error) {
                show("a stale book");
            }
            factory.inTransaction(session -> {
                show(session.createQuery("select count(*) from Book", Long.class).getSingleResult(), session.createQuery("select b.price from Book b where b.title = 'title 7'", BigDecimal.class).getSingleResult());
                session.remove(session.find(Author.class, id));
            });
            factory.inTransaction(session -> show(session.createQuery("select count(*) from Book", Long.class).getSingleResult()));
            factory.getSchemaManager().truncateMappedObjects();
        }
        factory("create-drop").close();
    }

    // ------------------------------------------------------------ Liquibase

    static Liquibase liquibase(Connection db) throws Exception {
        return new Liquibase("changes.yaml", new DirectoryResourceAccessor(folder), DatabaseFactory.getInstance().findCorrectDatabaseImplementation(new JdbcConnection(db)));
    }

    static void changes() throws Exception {
        java.io.PrintStream out = System.out;
        List<String> told = new ArrayList<>();
        try (Connection db = DriverManager.getConnection(url, "postgres", "")) {
            System.setOut(new java.io.PrintStream(java.io.OutputStream.nullOutputStream()));
            Liquibase one = liquibase(db);
            one.update(new Contexts());
            one.update(new Contexts());
            one.validate();
            told.add(String.valueOf(one.listUnrunChangeSets(new Contexts(), new LabelExpression()).size()));
            one.tag("first");
            StringWriter sql = new StringWriter();
            one.rollback(2, "", sql);
            told.add(sql.toString().lines().filter(line -> line.startsWith("ALTER") || line.startsWith("DROP") || line.startsWith("DELETE FROM public.databasechangelog WHERE")).collect(Collectors.joining(";")));
            one.rollback(2, "");
            told.add(String.valueOf(one.listUnrunChangeSets(new Contexts(), new LabelExpression()).size()));
            one.update(new Contexts());
            liquibase.database.Database database = one.getDatabase();
            liquibase.snapshot.DatabaseSnapshot snapshot = liquibase.snapshot.SnapshotGeneratorFactory.getInstance().createSnapshot(database.getDefaultSchema(), database, new liquibase.snapshot.SnapshotControl(database));
            for (Class<? extends liquibase.structure.DatabaseObject> kind : List.of(liquibase.structure.core.Table.class, liquibase.structure.core.View.class, liquibase.structure.core.Column.class, liquibase.structure.core.Index.class, liquibase.structure.core.ForeignKey.class, liquibase.structure.core.UniqueConstraint.class, liquibase.structure.core.Sequence.class))
                told.add(kind.getSimpleName() + ": " + snapshot.get(kind).stream().map(String::valueOf).filter(text -> !text.contains("databasechangelog")).sorted().toList());
            System.setOut(out);
        }
        told.forEach(Session::show);
        try (Connection db = DriverManager.getConnection(url, "postgres", "")) {
            for (String query : List.of("SELECT id, author, exectype, orderexecuted, md5sum, tag FROM databasechangelog ORDER BY orderexecuted", "SELECT locked FROM databasechangeloglock", "SELECT * FROM shop.item ORDER BY id", "SELECT * FROM shop.dear ORDER BY id")) {
                ResultSet rows = db.createStatement().executeQuery(query);
                while (rows.next()) {
                    List<Object> values = new ArrayList<>();
                    for (int at = 1; at <= rows.getMetaData().getColumnCount(); at++) values.add(rows.getObject(at));
                    show(values);
                }
            }
        }
    }

    public static void main(String[] args) throws Exception {
        java.util.logging.LogManager.getLogManager().reset();
        url = args[0];
        folder = Path.of(args[1]);
        switch (args[2]) {
            case "driver" -> driver();
            case "pooling" -> pooling();
            case "templates" -> templates();
            case "mapping" -> mapping();
            case "changes" -> changes();
            default -> throw new IllegalArgumentException(args[2]);
        }
    }
}
