import java.math.BigDecimal;
import java.sql.*;
import java.util.ArrayList;
import java.util.List;

/** Drives a server through pgjdbc; prints one line for each check and exits with 1 at the first that fails. */
public class Smoke {
    static void check(String what, Object expected, Object actual) {
        if (!expected.equals(actual)) {
            System.out.println("FAILED " + what + ": expected " + expected + ", got " + actual);
            System.exit(1);
        }
        System.out.println("ok " + what);
    }

    public static void main(String[] arguments) throws Exception {
        String schema = arguments[1];
        try (Connection connection = DriverManager.getConnection(arguments[0], "postgres", "")) {
            DatabaseMetaData metadata = connection.getMetaData();
            check("product", "PostgreSQL", metadata.getDatabaseProductName());
            check("major version", 15, metadata.getDatabaseMajorVersion());
            try (Statement statement = connection.createStatement()) {
                statement.execute("CREATE SCHEMA " + schema);
                statement.execute("CREATE TABLE " + schema + ".t (id int NOT NULL, name varchar(20), price numeric(10,2),"
                    + " born date, seen timestamp, ok boolean, big bigint, ratio double precision)");
            }
            String insert = "INSERT INTO " + schema + ".t VALUES (?, ?, ?, ?, ?, ?, ?, ?)";
            try (PreparedStatement statement = connection.prepareStatement(insert)) {
                for (int row = 1; row <= 10; row++) {
                    statement.setInt(1, row);
                    statement.setString(2, "name " + row);
                    statement.setBigDecimal(3, new BigDecimal(row + ".50"));
                    statement.setDate(4, Date.valueOf("2024-02-29"));
                    statement.setTimestamp(5, Timestamp.valueOf("2024-02-29 12:34:56.789"));
                    statement.setBoolean(6, row % 2 == 0);
                    statement.setLong(7, 1L << 40);
                    statement.setDouble(8, row / 4.0);
                    statement.addBatch();
                }
                check("batch", 10, statement.executeBatch().length);
            }
            // A statement used more than five times becomes a named one with binary results.
            String select = "SELECT id, name, price, born, seen, ok, big, ratio FROM " + schema + ".t WHERE id = ?";
            try (PreparedStatement statement = connection.prepareStatement(select)) {
                for (int turn = 1; turn <= 8; turn++) {
                    statement.setInt(1, turn);
                    try (ResultSet rows = statement.executeQuery()) {
                        check("row " + turn, true, rows.next());
                        check("name " + turn, "name " + turn, rows.getString(2));
                        check("price " + turn, new BigDecimal(turn + ".50"), rows.getBigDecimal(3));
                        check("born " + turn, Date.valueOf("2024-02-29"), rows.getDate(4));
                        check("seen " + turn, Timestamp.valueOf("2024-02-29 12:34:56.789"), rows.getTimestamp(5));
                        check("ok " + turn, turn % 2 == 0, rows.getBoolean(6));
                        check("big " + turn, 1L << 40, rows.getLong(7));
                        check("ratio " + turn, turn / 4.0, rows.getDouble(8));
                        check("one row " + turn, false, rows.next());
                    }
                }
            }
            connection.setAutoCommit(false);
            try (Statement statement = connection.createStatement()) {
                statement.setFetchSize(3);
                List<Integer> ids = new ArrayList<>();
                try (ResultSet rows = statement.executeQuery("SELECT id FROM " + schema + ".t ORDER BY id")) {
                    while (rows.next()) ids.add(rows.getInt(1));
                }
                check("fetch in portions", List.of(1, 2, 3, 4, 5, 6, 7, 8, 9, 10), ids);
                statement.executeUpdate("DELETE FROM " + schema + ".t WHERE id > 5");
                connection.rollback();
                check("update count", 10, statement.executeUpdate("UPDATE " + schema + ".t SET big = big + 1"));
                connection.commit();
                try {
                    statement.executeQuery("SELECT 1/0");
                    check("division by zero", "an error", "none");
                } catch (SQLException error) {
                    check("division by zero", "22012", error.getSQLState());
                }
                connection.rollback();
            }
            connection.setAutoCommit(true);
            List<String> columns = new ArrayList<>();
            try (ResultSet rows = metadata.getColumns(null, schema, "t", null)) {
                while (rows.next()) columns.add(rows.getString("COLUMN_NAME") + " " + rows.getString("TYPE_NAME"));
            }
            check("columns", List.of("id int4", "name varchar", "price numeric", "born date", "seen timestamp", "ok bool",
                "big int8", "ratio float8"), columns);
            List<String> tables = new ArrayList<>();
            try (ResultSet rows = metadata.getTables(null, schema, "%", new String[] {"TABLE"})) {
                while (rows.next()) tables.add(rows.getString("TABLE_NAME"));
            }
            check("tables", List.of("t"), tables);
            try (Statement statement = connection.createStatement()) {
                statement.execute("DROP TABLE " + schema + ".t");
                statement.execute("DROP SCHEMA " + schema);
            }
        }
        System.out.println("all passed");
    }
}
