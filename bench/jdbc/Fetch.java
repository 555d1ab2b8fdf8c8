import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.Statement;

/** Fetches all rows of a query once for each line on its input, and says how many there were. */
public class Fetch {
    public static void main(String[] arguments) throws Exception {
        try (Connection connection = DriverManager.getConnection(arguments[0], "postgres", "");
                Statement statement = connection.createStatement()) {
            System.out.println("ready");
            while (System.in.read() == '\n') {
                long rows = 0;
                try (ResultSet result = statement.executeQuery(arguments[1])) {
                    while (result.next()) {
                        rows++;
                    }
                }
                System.out.println(rows);
            }
        }
    }
}
