import java.util.Arrays;
import java.util.Map;
import org.flywaydb.core.Flyway;
import org.flywaydb.core.api.MigrationInfo;

/** A session of Flyway: what it prints is compared between the servers. Arguments: the URL, the folder of migrations, the feature. */
class Session {
    static Flyway flyway(String[] args, String folder, String schema) {
        return Flyway.configure().dataSource(args[0], "postgres", "unused").locations("filesystem:" + args[1] + "/" + folder)
            .schemas(schema).createSchemas(true).cleanDisabled(false)
            .configuration(Map.of("flyway.postgresql.transactional.lock", "false")).load();
    }

    static void show(Flyway flyway) {
        for (MigrationInfo info : flyway.info().all()) {
            System.out.println(info.getVersion() + " " + info.getDescription() + " " + info.getState());
        }
    }

    public static void main(String[] args) throws Exception {
        switch (args[2]) {
            case "migrate" -> {
                Flyway first = flyway(args, "first", "shop");
                System.out.println(first.migrate().migrationsExecuted);
                System.out.println(first.migrate().migrationsExecuted);
                first.validate();
                show(first);
            }
            case "upgrade" -> {
                Flyway both = flyway(args, "first", "shop");
                Flyway more = Flyway.configure().configuration(both.getConfiguration())
                    .locations("filesystem:" + args[1] + "/first", "filesystem:" + args[1] + "/second").load();
                System.out.println(more.migrate().migrationsExecuted);
                show(more);
            }
            case "failure" -> {
                Flyway failing = flyway(args, "failing", "broken");
                try {
                    failing.migrate();
                    throw new AssertionError("it should have failed");
                } catch (org.flywaydb.core.api.FlywayException error) {
                    System.out.println(error.getMessage().contains("22012"));
                }
                show(failing);
                failing.repair();
                show(failing);
            }
            case "together" -> {
                Thread[] threads = new Thread[3];
                int[] done = new int[threads.length];
                for (int i = 0; i < threads.length; i++) {
                    int number = i;
                    threads[i] = new Thread(() -> done[number] = flyway(args, "first", "shared").migrate().migrationsExecuted);
                    threads[i].start();
                }
                for (Thread thread : threads) {
                    thread.join();
                }
                System.out.println(Arrays.stream(done).sum());
                show(flyway(args, "first", "shared"));
            }
            case "clean" -> {
                Flyway first = flyway(args, "first", "shop");
                first.clean();
                show(first);
                flyway(args, "first", "again").baseline();
                show(flyway(args, "first", "again"));
            }
            default -> throw new IllegalArgumentException(args[2]);
        }
    }
}
